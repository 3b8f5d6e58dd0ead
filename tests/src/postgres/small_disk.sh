# Runs a supervisor with a small disk, the folder `disk` beside its data. Only it and its server see
# the disk, which is gone when they are.
#
# $1 the disk's size in megabytes, $2 and $3 the numbers of user and group, $4 the supervisor, $5
# and $6 its arguments.

folder=$6
mkdir "$folder/disk" &&
    mount -t tmpfs -o "size=$1m,mode=0700,uid=$2,gid=$3" tmpfs "$folder/disk" &&
    setpriv --reuid "$2" --regid "$3" --clear-groups sh "$4" "$5" "$folder"
umount "$folder/disk"
# The supervisor could not remove the folder that the disk was mounted on.
rm -rf "$folder"
