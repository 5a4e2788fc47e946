# Part of entry.sh: what is MariaDB's own.

# A copy of what the image was made with. The one user besides the engine's own is added before anybody can connect.
initialise() {
  case $verifier in
    *[!*0-9A-F]*) end 78 "the verifier of the administrator's password is no native hash" ;;
  esac
  cp --recursive --preserve=mode "$here/data" "$1"
  mkdir "$1/../tmp"
  mariadbd --no-defaults --bootstrap --datadir="$1" --tmpdir=/tmp --log-warnings=0 \
    --innodb-log-file-size=8M <<SQL
FLUSH PRIVILEGES;
CREATE USER 'svc_admin'@'localhost' IDENTIFIED BY PASSWORD '$verifier';
GRANT ALL PRIVILEGES ON *.* TO 'svc_admin'@'localhost' WITH GRANT OPTION;
SQL
}

is_ours() {
  [ -d "$1/mysql" ]
}

# Temporary files go to the volume, since /tmp is memory. The directory that plugins would come from, and the only one that
# statements may read files of, is an empty one of the image.
serve() {
  data=$1
  shift
  rm -f /socket/mysqld.sock "${data%/data}/tmp"/*
  exec mariadbd --no-defaults "$@" --datadir="$data" --tmpdir="${data%/data}/tmp" --skip-networking \
    --socket=/socket/mysqld.sock --pid-file=/tmp/mariadbd.pid --plugin-dir="$here/none" --secure-file-priv="$here/none"
}
