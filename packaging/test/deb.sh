#!/usr/bin/env bash
# Installs a Debian package in a fresh root by the commands of docs/operate/install.md, upgrades and
# purges it.
#
# Usage: deb.sh OLD NEW SCRATCH, as root, with MAILROOM_DATABASE_URL, TOOLS, which keeps the fresh
# root, and EMULATOR if this machine has another processor.
set -euo pipefail
old=$1 new=$2 scratch=$3
here=$(dirname "$(realpath "$0")")
. "$here/common.sh"

lintian --fail-on error,warning "$new"

if [ -n "$EMULATOR" ]; then
    dpkg-deb --extract "$new" "$scratch/root"
    run() {
        "$EMULATOR" "$scratch/root/usr/bin/mailroom" "$@"
    }
    use_program
    exit
fi

root=$scratch/root
fresh_root "$root"
run() {
    inside mailroom "$@"
}
# All but the notes of apt, dpkg and ldconfig. The users stay.
listing() {
    inside find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run \
        -o -path /tmp \) -prune -o \
        ! -path '/var/log/*' ! -path '/var/lib/dpkg/*' ! -path '/var/lib/apt/*' \
        ! -path '/var/cache/*' ! -path '/etc/*-' ! -path '/etc/.pwd.lock' \
        ! -path '/root/*' -print | sort
}
settings=$root/etc/mailroom/collector.env

listing >"$scratch/before"
echo "==> an older version is installed"
cp "$old" "$root/root/"
inside dpkg --install "/root/$(basename "$old")"
check_services
for unit in mailroom mailroom-bounces mailroom-serve; do
    state=$(inside systemctl is-enabled "$unit") || true
    [ "$state" = disabled ] || fail "$unit is $state"
done
use_program
write_settings
cp "$settings" "$scratch/settings"

echo "==> it is upgraded"
cp "$new" "$root/root/"
inside dpkg --force-confdef --force-confold --install "/root/$(basename "$new")"
cmp "$settings" "$scratch/settings" || fail "the upgrade has changed the settings"
[ -e "$settings.dpkg-dist" ] || fail "the new example is missing"
check_services

echo "==> it is removed"
inside dpkg --remove mailroom
[ ! -e "$root/usr/bin/mailroom" ] || fail "the program is still there"
cmp "$settings" "$scratch/settings" || fail "removing has changed the settings"

echo "==> it is purged"
mkdir --parents "$root/var/lib/mailroom/journal"
inside dpkg --purge mailroom
listing >"$scratch/after"
diff "$scratch/before" "$scratch/after" || fail "this was left behind, or is missing"

echo "==> it is installed as the documents say"
inside bash -euc "$(commands "Debian and Ubuntu" 1)"
write_settings
unset MAILROOM_DATABASE_URL
inside bash -euc "$(commands "Set it up" 1)"
inside bash -euc "$(commands "Set it up" 2)"
state=$(inside systemctl is-enabled mailroom) || true
[ "$state" = enabled ] || fail "the service is $state"

echo "==> a service that runs is restarted by an upgrade, and ended by a removal"
cat >"$root/etc/mailroom/send.toml" <<'TOML'
from = "no-reply@example.org"
product = "Example"
journal = "/var/lib/mailroom/journal"

[links]
base = "https://example.org"

[smtp]
server = "127.0.0.1"
port = 9
tls = "none"
TOML
process() {
    booted systemctl show --property MainPID --value mailroom
}
boot
first=$(process)
[ "$first" != 0 ] || fail "an enabled service is not started: $(booted journalctl --unit mailroom)"
booted dpkg --force-confold --install "/root/$(basename "$new")"
second=$(process)
[ "$second" != 0 ] && [ "$second" != "$first" ] || fail "it was $first, and is $second"
booted systemctl stop mailroom
booted dpkg --force-confold --install "/root/$(basename "$new")"
[ "$(process)" = 0 ] || fail "an upgrade starts what was stopped"
booted systemctl start mailroom
booted dpkg --remove mailroom
[ "$(process)" = 0 ] || fail "a removal leaves the service running"
[ -e "$root/var/lib/mailroom/journal" ] || fail "a removal deletes the journal"
booted dpkg --install "/root/$(basename "$new")"
halt

echo "==> mailroom serve runs as its unit says"
url=$(inside bash -euc '. /etc/mailroom/collector.env; echo "$MAILROOM_DATABASE_URL"')
printf "MAILROOM_DATABASE_URL='%s'\n" "$url" >>"$root/etc/mailroom/serve.env"
bearer=$(inside bash -euc "$(commands "The database by HTTP" 1)")
inside bash -euc "$(commands "The database by HTTP" 2)"
state=$(inside systemctl is-enabled mailroom-serve) || true
[ "$state" = enabled ] || fail "the service is $state"
serve_as_its_unit
answer=$(ask_serve "$bearer") || fail "mailroom serve does not answer: $(cat "$scratch/serve.log")"
[[ $answer == *'"verdict":"unknown"'* ]] || fail "mailroom serve answers: $answer"
answer=$(ask_serve another)
[[ $answer == 'HTTP/1.1 401 '* ]] || fail "mailroom serve answers another bearer token: $answer"
kill "$serve"
wait "$serve" || fail "mailroom serve ends with $?: $(cat "$scratch/serve.log")"
! grep --quiet "$bearer" "$scratch/serve.log" "$root/etc/mailroom/serve.toml" ||
    fail "the bearer token is in the log or in a file"
