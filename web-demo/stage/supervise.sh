# Runs a program for as long as whoever started this holds the other end of standard input, however
# that one ends. Says the program's process id on descriptor 3, which the program gets as well.

exec 4<&0
"$@" </dev/null 4<&- &
program=$!
echo "$program" >&3
{ cat <&4 >/dev/null; kill "$program"; } 3>&- 2>/dev/null &
exec 3>&- 4<&-
wait "$program"
