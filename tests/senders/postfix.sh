#!/bin/sh
# Runs an instance of Debian's postfix in the folder $1, at port $2 of 127.0.0.1, until standard
# input ends. It encrypts with certificate.pem and key.pem of the folder. Everybody at x.test and
# example.test has the mailbox mail/inbox, but for `gone`, whose mails are accepted and bounce. What
# comes to bounces@bounces.test goes to the script `bounce` of the folder. Postfix needs root.
set -eu
chmod 755 "$1"
mkdir "$1/etc" "$1/spool" "$1/data" "$1/mail"
chown postfix "$1/data"
chown nobody "$1/mail"
cat >"$1/etc/main.cf" <<END_OF_FILE
compatibility_level = 3.6
queue_directory = $1/spool
data_directory = $1/data
daemon_directory = /usr/lib/postfix/sbin
command_directory = /usr/sbin
maillog_file = $1/log
maillog_file_prefixes = $1
myhostname = localhost
mydestination = bounces.test
recipient_delimiter = +
alias_maps = hash:$1/etc/aliases
smtpd_reject_unlisted_recipient = no
inet_interfaces = loopback-only
inet_protocols = ipv4
smtpd_tls_security_level = may
smtpd_tls_cert_file = $1/certificate.pem
smtpd_tls_key_file = $1/key.pem
virtual_mailbox_domains = x.test example.test
virtual_mailbox_base = $1/mail
virtual_mailbox_maps = regexp:$1/etc/mailboxes
virtual_minimum_uid = 1
virtual_uid_maps = static:$(id -u nobody)
virtual_gid_maps = static:$(id -g nobody)
END_OF_FILE
echo '!/^gone@/ inbox/' >"$1/etc/mailboxes"
echo "bounces: \"|$1/bounce\"" >"$1/etc/aliases"
cat >"$1/etc/master.cf" <<END_OF_FILE
127.0.0.1:$2 inet n - n - - smtpd
anvil unix - - n - 1 anvil
bounce unix - - n - 0 bounce
cleanup unix n - n - 0 cleanup
defer unix - - n - 0 bounce
error unix - - n - - error
local unix - n n - - local
postlog unix-dgram n - n - 1 postlogd
proxymap unix - - n - - proxymap
qmgr unix n - n 300 1 qmgr
retry unix - - n - - error
rewrite unix - - n - - trivial-rewrite
tlsmgr unix - - n 1000? 1 tlsmgr
virtual unix - n n - - virtual
END_OF_FILE
postalias -c "$1/etc" "hash:$1/etc/aliases"
postfix -c "$1/etc" start-fg >/dev/null 2>&1 &
started=$!
read -r _ || true
# What is still being started is not there to be stopped.
while kill -0 "$started" 2>/dev/null; do
    postfix -c "$1/etc" stop >/dev/null 2>&1 || sleep 0.2
done
