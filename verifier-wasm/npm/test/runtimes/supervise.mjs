// The server ends with the process that started it, however that one ends:
// its end of the pipe closes.
export const SUPERVISE = `
exec 4<&0
"$@" </dev/null 4<&- & server=$!
{ cat <&4 >/dev/null; kill "$server"; } 3>&- 2>/dev/null & 
exec 3>&- 4<&-
wait "$server"`;
