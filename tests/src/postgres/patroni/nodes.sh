# Runs three nodes of Patroni, each with an etcd beside it, and an HAProxy before them, by commands
# read from standard input; answers each with "= STATUS" on a line of its own.
#
# It is the first process of a space of its own, so that all that it starts ends with it, and with
# that the networks, which nobody else can see. A node has two: what it serves is in one of them,
# etcd in the other.
#
# $1 the folder of all files, $2 and $3 the numbers of user and group, $4 the first three bytes of
# the addresses, $5 the name of the device that leads to them from here, $6 the folder with
# PostgreSQL's programs

folder=$1 user=$2 group=$3 network=$4 device=$5 programs=$6
control=198.19.0
members=n1=http://$control.1:2380,n2=http://$control.2:2380,n3=http://$control.3:2380

prepare() {
    mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns &&
        ip netns add switch &&
        ip link add "$device" type veth peer name here netns switch &&
        ip address add "$network.254/24" dev "$device" && ip link set "$device" up || return
    for name in data control; do
        ip -n switch link add "$name" type bridge && ip -n switch link set "$name" up || return
    done
    ip -n switch link set here master data up || return
    for node in 1 2 3; do
        ip netns add "n$node" && ip -n "n$node" link set lo up || return
        for name in data control; do
            ip -n switch link add "$name$node" type veth peer name "$name" netns "n$node" &&
                ip -n switch link set "$name$node" master "$name" up || return
        done
        ip -n "n$node" address add "$network.$node/24" dev data &&
            ip -n "n$node" address add "$control.$node/24" dev control &&
            ip -n "n$node" link set data up && ip -n "n$node" link set control up || return
    done
}

as_user() { exec setpriv --reuid "$user" --regid "$group" --clear-groups "$@"; }

on() {
    local node=$1
    shift
    exec ip netns exec "n$node" setpriv --reuid "$user" --regid "$group" --clear-groups "$@"
}

# Patroni 3.0 needs the old API: by the new one a leader that comes back takes the lock from its
# successor. Without `--pre-vote`, which is the default from version 3.5 on, a member that comes
# back makes the others elect a leader, and Patroni demotes a second one.
start_etcd() {
    on "$1" etcd --name "n$1" --data-dir "$folder/$1/etcd" --enable-v2 --pre-vote \
        --heartbeat-interval 500 --election-timeout 5000 --initial-cluster "$members" \
        --listen-peer-urls "http://$control.$1:2380" \
        --initial-advertise-peer-urls "http://$control.$1:2380" \
        --listen-client-urls "http://$control.$1:2379" \
        --advertise-client-urls "http://$control.$1:2379" >"$folder/$1/etcd.log" 2>&1 &
}

declare -A patroni

start() {
    on "$1" patroni "$folder/$1/patroni.yml" </dev/null >>"$folder/$1/patroni.log" 2>&1 &
    patroni[$1]=$!
}

# Starts what a killed server has left as one that takes no writes, by its socket alone. It is a
# copy: Patroni finds its own as it was.
show_left() {
    local copy=$folder/$1/left
    cp -a "$folder/$1/data" "$copy" && rm -f "$copy/postmaster.pid" &&
        (as_user touch "$copy/standby.signal") &&
        (as_user "$programs/pg_ctl" start -D "$copy" -l "$copy/log" -w -t 60 -o "-c port=5433 \
            -c listen_addresses= -c primary_conninfo= -c primary_slot_name= \
            -c synchronous_standby_names=") 2>&1 </dev/null
}

remove_left() {
    (as_user "$programs/pg_ctl" stop -D "$folder/$1/left" -m immediate -w) >/dev/null 2>&1
    rm -rf "$folder/$1/left"
}

while read -r command node; do
    case $command in
        prepare) prepare 2>&1 ;;
        haproxy) (as_user haproxy -db -f "$folder/haproxy.cfg") >"$folder/haproxy.log" 2>&1 & ;;
        etcd) start_etcd "$node" ;;
        start) start "$node" ;;
        kill)
            kill -KILL "${patroni[$node]}" &&
                kill -KILL "$(head -n 1 "$folder/$node/data/postmaster.pid")"
            ;;
        show-left) show_left "$node" ;;
        remove-left) remove_left "$node" ;;
        cut) ip -n switch link set "control$node" down ;;
        join) ip -n switch link set "control$node" up ;;
    esac
    echo "= $?"
done
