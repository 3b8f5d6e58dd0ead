# Runs a PostgreSQL server by commands read from standard input, answers each with "= STATUS" on a
# line of its own, and, when the input ends, stops the server and removes its folder. The input ends
# when the process that holds the other end of the pipe ends, however that happens, so nothing
# outlives it.
#
# $1 the folder with the server's programs, $2 the private folder that holds data, socket and log.

programs=$1
folder=$2
# The data may lie in memory.
data=$(readlink "$folder/data")

remove() {
    trap '' EXIT HUP INT PIPE TERM
    [ ! -e "$folder/data/postmaster.pid" ] ||
        "$programs/pg_ctl" stop -D "$folder/data" -m immediate -t 60 >/dev/null 2>&1
    # Processes of the server that end a moment later may still write to it.
    for _ in 1 2 3 4 5; do
        rm -rf "$folder" ${data:+"$data"} 2>/dev/null
        [ -e "$folder" ] || [ -e "$data" ] || break
        sleep 0.2
    done
}
trap remove EXIT
# PIPE, because the answer to a command may find nobody who reads it.
trap 'exit 1' HUP INT PIPE TERM

while read -r command mode; do
    case $command in
        init)
            "$programs/initdb" -D "$folder/data" --username=postgres --auth=trust \
                --encoding=UTF8 --locale=C --no-sync --no-instructions 2>&1 </dev/null
            ;;
        start)
            "$programs/pg_ctl" start -D "$folder/data" -l "$folder/log" -w -t 60 2>&1 </dev/null
            ;;
        stop)
            "$programs/pg_ctl" stop -D "$folder/data" -m "$mode" -w -t 60 2>&1 </dev/null
            ;;
    esac
    echo "= $?"
done
