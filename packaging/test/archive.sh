#!/usr/bin/env bash
# Installs an archive in a fresh root by the commands of docs/operate/install.md.
#
# One whose name begins with mailroom-full has the larger program, which is put beside the usual
# one.
#
# Usage: archive.sh RELEASE NAME SCRATCH, as root, with MAILROOM_DATABASE_URL, TOOLS, which keeps
# the fresh root, and EMULATOR if this machine has another processor.
set -euo pipefail
release=$1 name=$2 scratch=$3
here=$(dirname "$(realpath "$0")")
. "$here/common.sh"

use_full_program() {
    local said scheme
    for scheme in nats amqp; do
        # It has nothing to publish, and refuses a scheme that it does not know.
        said=$(run relay --to "$scheme://127.0.0.1:9" </dev/null 2>&1) || fail "$scheme: $said"
    done
    said=$(run send --help) && [[ $said == *--from* ]] || fail "it sends from no broker: $said"
}

if [ -n "$EMULATOR" ]; then
    # A root of the other processor needs the kernel's help, which not every machine gives: what
    # is packed is run without one.
    tar --extract --gzip --file "$release/$name.tar.gz" --directory "$scratch"
    run() {
        "$EMULATOR" "$scratch/$name/mailroom" "$@"
    }
    use_program
    [[ $name != mailroom-full-* ]] || use_full_program
    exit
fi

root=$scratch/root
fresh_root "$root"
cp "$release/$name.tar.gz" "$release/SHA256SUMS" "$root/root/"
run() {
    inside mailroom "$@"
}
if [[ $name == mailroom-full-* ]]; then
    inside bash -euc "$(commands "With a broker or traces" 1)"
    use_full_program
else
    inside bash -euc "$(commands "The archive" 1)"
    check_services
fi
use_program
