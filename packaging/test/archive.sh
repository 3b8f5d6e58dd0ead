#!/usr/bin/env bash
# Installs an archive in a fresh root by the commands of docs/operate/install.md.
#
# Usage: archive.sh RELEASE NAME SCRATCH, as root, with MAILROOM_DATABASE_URL, TOOLS, which keeps
# the fresh root, and EMULATOR if this machine has another processor.
set -euo pipefail
release=$1 name=$2 scratch=$3
here=$(dirname "$(realpath "$0")")
. "$here/common.sh"

if [ -n "$EMULATOR" ]; then
    # A root of the other processor needs the kernel's help, which not every machine gives: what
    # is packed is run without one.
    tar --extract --gzip --file "$release/$name.tar.gz" --directory "$scratch"
    run() {
        "$EMULATOR" "$scratch/$name/mailroom" "$@"
    }
    use_program
    exit
fi

root=$scratch/root
fresh_root "$root"
cp "$release/$name.tar.gz" "$release/SHA256SUMS" "$root/root/"
run() {
    inside mailroom "$@"
}
inside bash -euc "$(commands "The archive" 1)"
check_services
use_program
