import type { DatabaseEngine } from "@svc/proto";

/** What a database server's image is made of. Paths are relative to its root. */
export interface Recipe {
  /** Server and major version: data of another one is never started. */
  engine: string;
  packages: readonly string[];
  /** All programs that there are, by the directory that has them. */
  programs: Readonly<Record<string, readonly string[]>>;
  /** What comes with the packages and must not, or need not, be there. */
  dropped: readonly RegExp[];
}

/** What the entry point takes, and somebody who looks into a server that does not start. */
const shell = ["cat", "cp", "dash", "flock", "ls", "mkdir", "mv", "rm", "sh", "sync"];
/** What copies are kept, and restored, with besides the engine's own. */
const forCopies = ["du", "head", "sleep", "stat", "tail", "tar", "timeout", "zstd"];

/** Nobody is helped by these where no person reads: a server's texts are in English, and its image has one user. */
const unread = [
  /^usr\/share\/(?:bash-completion|debianutils|gcc|gdb|info|libgcrypt20|locale|menu|util-linux)$/,
  /^usr\/lib\/(?:mime|systemd|tmpfiles\.d|sasl2)$/,
  /^etc\/(?:cron\.d|ldap|mysql|pam\.d|postgresql|security)$/,
];

export const recipes = {
  postgres: {
    engine: "postgres 17",
    packages: ["postgresql-17", "postgresql-17-pgvector"],
    programs: {
      "usr/bin": [...shell, ...forCopies],
      "usr/sbin": [],
      "usr/lib/postgresql/17/bin": [
        ...["initdb", "postgres", "pg_controldata", "psql", "pg_dump", "pg_restore"],
        ...["pg_basebackup", "pg_receivewal", "pg_verifybackup", "pg_combinebackup"],
      ],
    },
    dropped: [
      ...unread,
      // Code that is compiled for each query, and needs a compiler of 130 MB.
      /^usr\/lib\/postgresql\/17\/lib\/(?:bitcode|llvmjit.*|pgxs)$/,
      // What reads files and dials addresses as the server, starts programs, or had holes that no tenant misses it for.
      /^usr\/lib\/postgresql\/17\/lib\/(?:basebackup_to_shell|dblink|file_fdw|postgres_fdw|refint|sepgsql)\.so$/,
      /^usr\/share\/postgresql\/17\/extension\/(?:dblink|file_fdw|postgres_fdw|refint)(?:--.*\.sql|\.control)$/,
    ],
  },
  mariadb: {
    engine: "mariadb 11.8",
    // The core package has no plugin: nothing but what is in the server itself can be switched on.
    packages: ["mariadb-server-core", "mariadb-client", "openssl", "mawk"],
    programs: {
      "usr/bin": [...shell, ...forCopies, "mariadb", "mariadb-binlog", "mariadb-dump", "openssl", "mawk", "od"],
      "usr/sbin": ["mariadbd"],
    },
    dropped: [
      ...unread,
      // Texts of errors, each language in a folder of its own.
      /^usr\/share\/mariadb\/(?!charsets$|english$|[^/]*\.sql$)[^/]*$/,
    ],
  },
} as const satisfies Record<DatabaseEngine, Recipe>;
