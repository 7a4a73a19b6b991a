#!/bin/bash
# Perl's TheSchwartz 1.12 returns the same empty value from `insert` if the database is away as for a job whose `uniqkey` is
# known, raises no error and prints nothing. After one failed insert it does not try the database again for 30 seconds
# (`retry_seconds`), so `insert` also stores nothing while the database works again. Hurt: receivers of webhooks that insert each
# event with the `webhook-id` as its `uniqkey`: an event that was not stored looks like a duplicate, is answered with 204 and lost.
# Source: `insert_job_to_driver` in TheSchwartz.pm, https://metacpan.org/pod/TheSchwartz
# Usage: findings/theschwartz-outages.sh. Needs apt-get and Perl of Debian 12. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libtheschwartz-perl=1.12-2 libdata-objectdriver-perl=0.22-1 \
  libclass-accessor-perl=0.51-2 libclass-data-inheritable-perl=0.08-3 libclass-trigger-perl=0.15-2 libsub-name-perl=0.26-2+b1 \
  libdbd-sqlite3-perl=1.72-1 libdbi-perl=1.643-4+deb12u4
for package in *.deb; do dpkg --extract "$package" .; done
cat > insert.pl <<'PERL'
use strict;
use warnings;
use DBI;
use TheSchwartz;
use TheSchwartz::Job;

my $path = "volume/jobs.db";
my $client = TheSchwartz->new(databases => [{ dsn => "dbi:SQLite:dbname=$path", user => "", pass => "" }]);

sub show {
    my ($when, $id, $client) = @_;
    my $job = TheSchwartz::Job->new(funcname => "Process", arg => { id => $id }, uniqkey => $id);
    my $handle = eval { $client->insert($job) };
    print "$when: ", $@ ? "error" : defined $handle ? "stored" : "nothing", "\n";
}

show("database away", "evt_1", $client);
mkdir "volume" or die;
my $database = DBI->connect("dbi:SQLite:dbname=$path", "", "", { RaiseError => 1 });
$database->do($_) for
    "CREATE TABLE funcmap (funcid INTEGER PRIMARY KEY AUTOINCREMENT, funcname TEXT NOT NULL UNIQUE)",
    "CREATE TABLE job (jobid INTEGER PRIMARY KEY AUTOINCREMENT, funcid INTEGER NOT NULL, arg BLOB, uniqkey TEXT,
        insert_time INTEGER, run_after INTEGER NOT NULL, grabbed_until INTEGER NOT NULL, priority INTEGER, coalesce TEXT,
        UNIQUE (funcid, uniqkey))";
sleep 5;
show("5 seconds after it is back", "evt_2", $client);
show("another client, a new id", "evt_3", TheSchwartz->new(databases => [{ dsn => "dbi:SQLite:dbname=$path", user => "", pass => "" }]));
sleep 27;
show("32 seconds after it is back", "evt_4", $client);
show("a known id", "evt_4", $client);
print "stored: @{$database->selectcol_arrayref('SELECT uniqkey FROM job ORDER BY jobid')}\n";
PERL
/usr/bin/perl -Iusr/share/perl5 -Iusr/lib/x86_64-linux-gnu/perl5/5.36 insert.pl > seen 2> errors
cat seen errors
[ "$(cat seen errors)" = "database away: nothing
5 seconds after it is back: nothing
another client, a new id: stored
32 seconds after it is back: stored
a known id: nothing
stored: evt_3 evt_4" ]
