#!/bin/bash
# maildrop's mailbot 2.9.3 of Debian 12 sends an absence notice in reply to an email with `List-Unsubscribe`, because it looks
# for other signs of a list. Dovecot's Sieve 2.3.19 sends none, as RFC 5230 recommends. Both reply to an email without such
# a header, and to none with `Auto-Submitted: auto-generated`. Hurt: services whose notifications have one-click
# unsubscription and nothing else, and whose mailbox fills with absence notices.
# Sources: https://www.rfc-editor.org/rfc/rfc5230#section-4.6 and https://www.rfc-editor.org/rfc/rfc3834#section-2
# Usage: findings/vacation-unsubscribe.sh. Needs apt-get of Debian 12. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
dovecot=1:2.3.19.1+dfsg1-2.1+deb12u7
apt-get -o APT::Sandbox::User=root download --quiet --quiet maildrop=2.9.3-2.1 libcourier-unicode4=2.1.2-2+b2 \
  dovecot-core=$dovecot dovecot-sieve=$dovecot libexttextcat-2.0-0=3.4.5-1 libstemmer0d=2.2.0-2 libunwind8=1.6.2-3
for package in *.deb; do dpkg --extract "$package" .; done
LD_LIBRARY_PATH=$PWD/usr/lib/dovecot:$(echo "$PWD"/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH
echo 'I am away.' > reply.txt
echo 'require ["vacation"]; vacation "I am away.";' > away.sieve
chmod --recursive a+rwX .

mailbot() { PATH=$PWD/usr/bin:$PATH usr/bin/mailbot -T reply -t reply.txt -s Away cat < message.eml | grep --count away || true; }
sieve() {
  # Without doveconf, the settings are environment variables. Dovecot refuses to be root, so the user is 65534.
  env DOVECONF_ENV=1 SSL=no MAIL_LOCATION="maildir:$PWD/mail" MAIL_UID=65534 MAIL_GID=65534 FIRST_VALID_UID=1 HOSTNAME=localhost \
    POSTMASTER_ADDRESS=postmaster@example.com SENDMAIL_PATH=/bin/true \
    usr/bin/sieve-test -e -f jobs@example.com -r ada@example.com -a ada@example.com away.sieve message.eml 2>&1 |
    grep --count '^info: .*sent vacation response' || true
}

# Compares how many replies both programs send to an email with this header.
expect() {
  local header=$1 found
  printf '%s\n' 'From: jobs@example.com' 'To: ada@example.com' 'Subject: A job failed' "Message-ID: <$RANDOM@example.com>" \
    "$header" '' 'It ran out of cogs.' > message.eml
  found="mailbot $(mailbot), Sieve $(sieve)"
  echo "$header: $found"
  [ "$found" = "$2" ]
}
expect 'X-Mailer: jobs' "mailbot 1, Sieve 1"
expect 'List-Unsubscribe: <https://example.com/unsubscribe>' "mailbot 1, Sieve 0"
expect 'List-Id: <jobs.example.com>' "mailbot 0, Sieve 0"
expect 'Auto-Submitted: auto-generated' "mailbot 0, Sieve 0"
