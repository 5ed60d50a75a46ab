# Unmodified applications on one link of 200 Mbps: a bulk copy, and once 8 MB of it have come two jobs that send less. Prints the
# name of each as it ends. Run in network and mount namespaces of its own:
#   applications.sh CAVALCADE FOLDER GROUP POLICY SCENARIO    (the policy "plain": nothing is scheduled)
set -e
cavalcade=$1 folder=$2 group=$3 policy=$4 scenario=$5
# A copy that waits for a disk has nothing to send meanwhile, and others go before it.
mount -t tmpfs -o mode=777 copies "$folder"
cd "$folder"

# Each scenario says at which ports servers send, and has: prepare, bulk, copied (how many MB have come), first, second.
case $scenario in
backup)
    # PostgreSQL copies itself, and iperf3 sends.
    port=5499 rules="--tag port:5499=backup"
    as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
    bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
    prepare() {
        as_postgres "$bin/initdb" -D data -A trust -N > initdb.log 2>&1
        cat >> data/postgresql.conf <<C
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
fsync = off
C
        as_postgres "$bin/pg_ctl" -D data -l data/log -w start > /dev/null
        psql -q -h 127.0.0.1 -p $port -U postgres postgres \
            -c "create table t as select repeat(md5(i::text), 8) from generate_series(1, 500000) i; checkpoint"
        for at in 5201 5202; do iperf3 -s -1 -p $at -B 127.0.0.1 > /dev/null & done
    }
    bulk() {
        as_task copy "$bin/pg_basebackup" -h 127.0.0.1 -p $port -U postgres -D copy -X none -c fast --no-sync > copy.log 2>&1
    }
    copied() { du -sm copy | cut -f 1; }
    first() { as_task first iperf3 -c 127.0.0.1 -p 5201 -n 60M > first.log 2>&1; }
    second() { as_task second iperf3 -c 127.0.0.1 -p 5202 -n 60M > second.log 2>&1; }
    stop() { as_postgres "$bin/pg_ctl" -D data -m immediate stop > /dev/null 2>&1; }
    ;;
download)
    # curl fetches a file from nginx, memccat a value from memcached, and two processes of an MPI job reduce a vector.

    port=8099 rules="--tag port:8099=file --tag port:11299=value"
    prepare() {
        mkdir www
        head -c 100000000 /dev/zero > www/file
        head -c 30000000 /dev/zero > value
        cat > nginx.conf <<C
daemon off;
user root;
pid nginx.pid;
events {}
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server { listen 127.0.0.1:$port; root www; sendfile on; }
}
C
        cat > reduce.py <<C
from mpi4py import MPI
vector = bytearray(15_000_000)
MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, [vector, MPI.BYTE], op=MPI.BOR)
C
        nginx -p "$folder/" -c nginx.conf -e nginx.log > nginx.out 2>&1 &
        memcached -u root -l 127.0.0.1 -p 11299 -I 64m -m 200 > memcached.log 2>&1 &
        appears nginx.pid
        until memccp --servers=127.0.0.1:11299 value > memccp.log 2>&1; do sleep 0.1; done
    }
    bulk() { as_task copy curl -s -o copy http://127.0.0.1:$port/file; }
    copied() { du -sm copy | cut -f 1; }
    first() { as_task first memccat --servers=127.0.0.1:11299 value > fetched 2> first.log; }
    second() {
        as_task second mpirun --allow-run-as-root --oversubscribe -np 2 --mca plm isolated --mca btl tcp,self \
            --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo /usr/bin/python3 reduce.py > second.log 2>&1
    }
    stop() { true; }
    ;;
esac

ip link set lo up mtu 1500
ip link set lo gso_max_size 3100 2>/dev/null || true
echo reno > /proc/sys/net/ipv4/tcp_congestion_control
echo 10000 2>/dev/null > /proc/sys/net/ipv4/tcp_rto_min_us || true
# What goes to 127.0.0.1 shares the link, but for what agents say and packets below 128 bytes.
tc -batch - <<'T'
qdisc add dev lo root handle 1: htb default 10
class add dev lo parent 1: classid 1:10 htb rate 1gbit prio 0 quantum 60000
class add dev lo parent 1: classid 1:20 htb rate 200mbit ceil 200mbit burst 50k cburst 50k prio 1 quantum 60000
qdisc add dev lo parent 1:20 bfifo limit 100000
filter add dev lo parent 1: protocol ip prio 1 u32 match ip dport 7336 0xffff flowid 1:10
filter add dev lo parent 1: protocol ip prio 1 u32 match ip sport 7336 0xffff flowid 1:10
filter add dev lo parent 1: protocol ip prio 2 u32 match u16 0 0xff80 at 2 flowid 1:10
filter add dev lo parent 1: protocol ip prio 3 u32 match ip dst 127.0.0.1/32 flowid 1:20
T

echo $$ > "$group/cgroup.procs"
started=
end() {
    kill -INT $started 2>/dev/null || true
    stop || true
    kill $(jobs -p) 2>/dev/null || true
}
trap end EXIT
appears() { for _ in $(seq 600); do [ -e "$1" ] && return; sleep 0.1; done; echo "$1 does not appear"; exit 1; }
if [ "$policy" != plain ]; then
    # This host is 127.0.0.2, the one that everything is sent to 127.0.0.1.
    XDG_RUNTIME_DIR=$folder "$cavalcade" up --hosts 127.0.0.2,127.0.0.1 --rate 200Mbps --policy "$policy" > up.log 2>&1 &
    started=$!
    appears cavalcade.sock
    "$cavalcade" enforce --group "$group" --door door --socket cavalcade.sock $rules > enforce.log 2>&1 &
    started="$! $started"
    appears door
fi
as_task() {
    task=$1; shift
    if [ "$policy" = plain ]; then "$@"; else "$cavalcade" run --task "$task" --door door -- "$@"; fi
}

prepare
(bulk; echo bulk) &
all=$!
# Its server thinks for a while before it sends, and who comes meanwhile is no latecomer.
for _ in $(seq 600); do [ "$(copied 2>/dev/null)" -ge 8 ] 2>/dev/null && break; sleep 0.1; done
(first; echo first) &
all="$all $!"
# FIFO goes by who is known first.
knows() { XDG_RUNTIME_DIR=$folder "$cavalcade" ps --json | grep -q "\"$1\""; }
for _ in $(seq 600); do [ "$policy" = plain ] || knows first && break; sleep 0.1; done
(second; echo second) &
wait $all $!
