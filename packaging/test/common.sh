# What the trials of all artefacts share: each defines `run`, which runs the program.
# shellcheck shell=bash

SUITE=bookworm

fail() {
    echo "error: $*" >&2
    exit 1
}

# The commands of docs/operate/install.md below a heading that are executed as they stand there:
# the block with that number.
commands() {
    local found
    found=$(awk -v heading="## $1" -v wanted="$2" '
        /^## / { inside = ($0 == heading); next }
        inside && /^ *<!-- not executed/ { skipped = 1 }
        inside && /^ *```bash$/ {
            block = !skipped; skipped = 0; number += block; reading = 1; next
        }
        /^ *```$/ { reading = 0 }
        inside && reading && block && number == wanted' "$here/../../docs/operate/install.md")
    [ -n "$found" ] || fail "docs/operate/install.md has no commands number $2 below '$1'"
    echo "$found"
}

# Makes a root of Debian that has nothing of this machine. TOOLS keeps one that nobody has used.
fresh_root() {
    local root=$1 fresh=$TOOLS/debian-$SUITE.tar
    mkdir "$root"
    if [ ! -e "$fresh" ]; then
        debootstrap --variant=minbase --include=systemd,ca-certificates "$SUITE" "$root" >&2
        tar --create --file "$fresh.new" --directory "$root" --exclude './var/cache/apt/*' .
        mv "$fresh.new" "$fresh"
    else
        tar --extract --file "$fresh" --directory "$root"
    fi
}

# Runs a command in the folder /root of that root, where systemd does not run.
inside() {
    chroot "$root" /usr/bin/env --ignore-environment --chdir=/root SYSTEMD_OFFLINE=1 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive MAILROOM_DATABASE_URL="${MAILROOM_DATABASE_URL:-}" \
        MAILROOM_SECRET_KEY="${MAILROOM_SECRET_KEY:-}" "$@"
}

# Boots systemd in that root, in namespaces of its own, until `halt` or the end of this script. Sets
# `machine`, the process that holds them, `init`, which is systemd, and `group`, its control group.
boot() {
    local groups
    groups=$(findmnt --noheadings --first-only --types cgroup2 --output TARGET) ||
        fail "the kernel has no control groups of version 2"
    group=$groups/mailroom-trial-$$
    mkdir "$group"
    (
        echo "$BASHPID" >"$group/cgroup.procs"
        exec unshare --pid --fork --kill-child --mount --uts --ipc --cgroup \
            bash "$here/boot.sh" "$root"
    ) >"$scratch/boot.log" 2>&1 </dev/null &
    machine=$!
    trap halt EXIT
    for _ in {1..600}; do
        init=$(cut -d ' ' -f 1 "/proc/$machine/task/$machine/children")
        case $([ -z "$init" ] || booted systemctl is-system-running 2>&1) in
            running | degraded) return 0 ;;
        esac
        sleep 0.2
    done
    fail "systemd does not boot: $(cat "$scratch/boot.log")"
}

# Runs a command where systemd runs.
booted() {
    nsenter --target "$init" --mount --pid --uts --ipc --cgroup --root --wd=/root \
        /usr/bin/env --ignore-environment LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# Ends all that was booted.
halt() {
    trap - EXIT
    kill -KILL "$machine" 2>/dev/null || true
    wait "$machine" 2>/dev/null || true
    for _ in {1..100}; do
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null && return
        sleep 0.1
    done
    fail "processes of $group do not end"
}

# What systemd and the system's users must be like after an installation.
check_services() {
    local user unit said name
    for user in mailroom mailroom-bounces mailroom-serve; do
        inside getent passwd "$user" | grep --quiet '/nologin$' ||
            fail "there is no user $user without a shell"
    done
    for unit in mailroom.service mailroom-bounces.service mailroom-serve.service \
        mailroom@shop.service; do
        said=$(inside systemd-analyze verify --man=no "$unit" 2>&1) || fail "$unit: $said"
        [[ $said != *mailroom* ]] || fail "systemd complains of $unit: $said"
        inside systemd-analyze security --offline=yes --threshold=20 --no-pager "$unit" \
            >/dev/null || fail "$unit is exposed to more than 2.0"
    done
    for name in collector bounces serve; do
        [ "$(stat --format %a "$root/etc/mailroom/$name.env")" = 600 ] ||
            fail "others can read $name.env"
    done
    for name in send bounces serve; do
        [ "$(stat --format %a "$root/etc/mailroom/$name.toml")" = 644 ] ||
            fail "the service cannot read $name.toml, or others can write it"
    done
}

# The settings of a collector, as an operator writes them into collector.env.
write_settings() {
    local key
    key=$(run keygen) && [[ $key =~ ^[0-9a-f]{64}$ ]] || fail "keygen makes no key"
    printf "MAILROOM_DATABASE_URL='%s'\nMAILROOM_SECRET_KEY='%s'\n" \
        "$MAILROOM_DATABASE_URL" "$key" >>"$root/etc/mailroom/collector.env"
}

# Runs the command of mailroom-serve.service with its settings as its user, at any free port. Sets
# `serve`, the process, and `address`.
serve_as_its_unit() {
    local command settings
    command=$(sed --quiet 's/^ExecStart=//p' "$root/lib/systemd/system/mailroom-serve.service")
    command=${command/127.0.0.1:8027/127.0.0.1:0}
    [[ $command == *127.0.0.1:0* ]] || fail "the unit listens elsewhere: $command"
    settings=$(grep '^MAILROOM_DATABASE_URL=' "$root/etc/mailroom/serve.env" | tr --delete "'")
    # No shell stays between, so that a signal reaches the program. Words are what systemd splits.
    # shellcheck disable=SC2086
    chroot "$root" /usr/bin/setpriv --reuid=mailroom-serve --regid=mailroom-serve --clear-groups \
        /usr/bin/env --ignore-environment PATH=/usr/local/bin:/usr/bin "$settings" \
        $command 2>"$scratch/serve.log" &
    serve=$!
    for _ in {1..600}; do
        address=$(sed --quiet 's/.*are served.* address=\([^ ]*\).*/\1/p' "$scratch/serve.log")
        [ -z "$address" ] || return 0
        sleep 0.1
    done
    fail "mailroom serve does not listen: $(cat "$scratch/serve.log")"
}

# Uses a link that nobody was sent, with a bearer token.
ask_serve() {
    local body
    body="{\"action\":\"activate\",\"secret\":\"$(printf '0%.0s' {1..64})\"}"
    exec {connection}<>"/dev/tcp/${address/://}"
    printf 'POST /v1/redeem HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\n%s\r\n%s\r\n\r\n%s' \
        "$1" 'content-type: application/json' "content-length: ${#body}" "$body" >&"$connection"
    cat <&"$connection"
    exec {connection}>&-
}

# Tries what an operator does first.
use_program() {
    local said status=0
    said=$(run --version)
    [[ $said == mailroom\ * ]] || fail "--version says: $said"
    said=$(run keygen) && [[ $said =~ ^[0-9a-f]{64}$ ]] || fail "keygen makes no key"
    export MAILROOM_SECRET_KEY=$said
    run migrate up --without-accounts >/dev/null || fail "the schema cannot be made"
    # 0 if all is well, 1 for a warning.
    said=$(run check) || status=$?
    [ "$status" -le 1 ] || fail "check ends with $status: $said"
    [[ $said == *schema* ]] || fail "check looks at nothing: $said"
    said=$(run status) || fail "status fails: $said"
    status=0
    said=$(MAILROOM_DATABASE_URL='' run check 2>&1) || status=$?
    [ "$status" = 3 ] || fail "check without a database ends with $status: $said"
    unset MAILROOM_SECRET_KEY
}
