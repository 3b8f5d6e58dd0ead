# Runs a PostgreSQL server until the input ends, then stops it and removes its folder. The input
# ends when the process that holds the other end of the pipe ends, however that happens, so nothing
# outlives it. Says `ready`, or what went wrong.
#
# $1 the folder of the programs, $2 the private folder, $3 the port

programs=$1
folder=$2
log=$folder/log

end() {
    trap '' EXIT HUP INT PIPE TERM
    [ ! -e "$folder/data/postmaster.pid" ] ||
        "$programs/pg_ctl" stop -D "$folder/data" -m immediate -t 60 >/dev/null 2>&1
    # Processes of the server that end a moment later may still write to it.
    for _ in 1 2 3 4 5; do
        rm -rf "$folder" 2>/dev/null
        [ -e "$folder" ] || break
        sleep 0.2
    done
}
trap end EXIT
# PIPE, because the answer may find nobody who reads it.
trap 'exit 1' HUP INT PIPE TERM

start() {
    "$programs/initdb" -D "$folder/data" --username=postgres --pwfile="$folder/password" \
        --auth=scram-sha-256 --encoding=UTF8 --locale=C --no-sync --no-instructions || return
    rm "$folder/password"
    # Safety against a crash of the machine is of no use for data that are deleted.
    cat >>"$folder/data/postgresql.conf" <<END
listen_addresses = '127.0.0.1'
port = $3
unix_socket_directories = ''
fsync = off
full_page_writes = off
synchronous_commit = off
END
    "$programs/pg_ctl" start -D "$folder/data" -l "$log.server" -w -t 60 && return
    cat "$log.server"
    return 1
}

if start "$@" >"$log" 2>&1 </dev/null; then
    echo ready
    cat >/dev/null
else
    cat "$log"
fi
