#!/usr/bin/env bash
# Unpacks an image without an engine and runs what it says, as the user that it says, in a root
# that has nothing but the image.
#
# Usage: image.sh IMAGE VERSION SCRATCH, with ARCHITECTURE, MAILROOM_DATABASE_URL, and EMULATOR if
# this machine has another processor.
set -euo pipefail
image=$1 version=$2 scratch=$3
here=$(dirname "$(realpath "$0")")
. "$here/common.sh"

mkdir "$scratch/layout"
tar --extract --file "$image" --directory "$scratch/layout"
umoci unpack --image "$scratch/layout:$version" "$scratch/bundle"
root=$scratch/bundle/rootfs

configuration() {
    python3 - "$scratch/layout" "$1" <<'PYTHON'
import json, pathlib, sys
layout = pathlib.Path(sys.argv[1])
blob = lambda entry: json.loads((layout / "blobs" / entry["digest"].replace(":", "/")).read_text())
[manifest] = json.loads((layout / "index.json").read_text())["manifests"]
value = blob(blob(manifest)["config"])
for name in sys.argv[2].split("."):
    value = value[name]
print(value if isinstance(value, str) else " ".join(value))
PYTHON
}
[ "$(configuration architecture)" = "$ARCHITECTURE" ] || fail "the image is for another processor"
user=$(configuration config.User)
[[ $user =~ ^[1-9][0-9]*:[1-9][0-9]*$ ]] || fail "the image runs as the user '$user'"
program=$(configuration config.Entrypoint)

found=$(cd "$root" && find . ! -type d | sort | tr '\n' ' ')
[ "$found" = ". ./usr/bin/mailroom " ] || [ "$found" = "./usr/bin/mailroom " ] ||
    fail "the image has $found"
[ "$(stat --format %u:%g:%a "$root/var/lib/mailroom")" = "$user:700" ] ||
    fail "/var/lib/mailroom is not its user's"

if [ -n "$EMULATOR" ]; then
    install "$(command -v "$EMULATOR")" "$root/emulator"
fi
run() {
    # shellcheck disable=SC2086
    chroot --userspec="$user" "$root" ${EMULATOR:+/emulator} "$program" "$@"
}
use_program
said=$(run init /var/lib/mailroom/new)
[ -s "$root/var/lib/mailroom/new/send.toml" ] || fail "its user cannot write: $said"
