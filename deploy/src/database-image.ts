import { createHash } from "node:crypto";
import { chmod, chown, copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { type DatabaseEngine, databaseEngines } from "@svc/proto";
import { run } from "@svc/runtime/command";
import { argv } from "@svc/runtime/programs";
import { type Recipe, recipes } from "./database-recipes.ts";
import { layPackages } from "./debian-packages.ts";
import { ensureMadeImage, type MadeImage, type MadeImageOptions, removeBut } from "./made-image.ts";
import { repositoryRoot } from "./paths.ts";

const bootstrapMs = 120_000;

/** The user that servers run as: nobody else's, on this machine or in the image. */
const user = { name: "database", id: 999 };

/** Files of ours in each image, by where they are in it. */
const sourceDir = join(repositoryRoot, "deploy", "database");
const ownDir = "usr/lib/svc-database";
const commonFiles = { "entry.sh": "entry.sh", "copy.sh": "copy.sh", "keep.sh": "keep.sh" };
const ownFiles = {
  postgres: {
    ...commonFiles,
    "postgres.sh": "engine.sh",
    "postgres-keep.sh": "engine-keep.sh",
    "pg_hba.conf": "pg_hba.conf",
  },
  mariadb: { ...commonFiles, "mariadb.sh": "engine.sh", "mariadb-keep.sh": "engine-keep.sh" },
} as const satisfies Record<DatabaseEngine, Readonly<Record<string, string>>>;

/** Needed by scripts of packages, to install more of them, or by programs that are removed. */
const without =
  /^(?:adduser|debconf|debianutils|gcc-\d.*-base|init-system-helpers|libdebconfclient0|lib(?:audit-common|blkid1|db5\.3t64|lastlog2-2|mount1|semanage.*|sepol2|smartcols1|sqlite3-0|udev1)|lib.*perl.*|libllvm.*|libpam-(?:modules|runtime).*|libz3-4|locales|libc-l10n|login.*|(?:mysql|mariadb)-common|netbase|openssl-.*|passwd|perl.*|postgresql-(?:client-)?common.*|procps|sensible-utils|ssl-cert|sysvinit-utils|ucf)$/;

export interface DatabaseImagesOptions extends MadeImageOptions {
  /** Name and tag for each engine that is wanted. */
  images: Readonly<Partial<Record<DatabaseEngine, string>>>;
}

/** Sees to it that the engine has the images of database servers; see `ensureMadeImage`. */
export async function ensureDatabaseImages(
  options: DatabaseImagesOptions,
): Promise<Partial<Record<DatabaseEngine, "present" | "pulled" | "built">>> {
  const done: Partial<Record<DatabaseEngine, "present" | "pulled" | "built">> = {};
  for (const engine of databaseEngines) {
    const image = options.images[engine];
    if (image !== undefined) done[engine] = await ensureMadeImage(image, await madeImageOf(engine), options);
  }
  return done;
}

const madeImageOf = async (engine: DatabaseEngine): Promise<MadeImage> => ({
  ...{ kind: "database", variant: engine, userId: user.id, entry: `/${ownDir}/entry.sh` },
  recipe: await recipeDigest(engine),
  lay: (root, options) => lay(engine, root, options),
});

/** Names everything that an image is made of but the packages' versions. */
async function recipeDigest(engine: DatabaseEngine): Promise<string> {
  const hash = createHash("sha256").update(`${process.arch} ${user.id} ${without}`);
  const parts = JSON.stringify(recipes[engine], (_, value: unknown) => (value instanceof RegExp ? `${value}` : value));
  hash.update(parts);
  for (const [from, to] of Object.entries(ownFiles[engine])) {
    hash.update(`\0${to}\0`).update(await readFile(join(sourceDir, from)));
  }
  return hash.digest("hex").slice(0, 16);
}

/** Everything that the image has, below the directory `root`. */
async function lay(
  engine: DatabaseEngine,
  root: string,
  { cacheDir, signal }: { cacheDir: string; signal: AbortSignal },
): Promise<void> {
  const recipe: Recipe = recipes[engine];
  const packages = ["coreutils", "dash", "tar", "tzdata", "util-linux", "zstd", ...recipe.packages];
  await layPackages(root, { suite: "trixie", packages, without, cacheDir, signal });
  for (const [directory, programs] of Object.entries(recipe.programs)) {
    await removeBut(join(root, directory), (name) => programs.includes(name));
  }
  await removeMatching(root, recipe.dropped);
  await writeFile(join(root, "etc/passwd"), passwdOf());
  await writeFile(join(root, "etc/group"), `root:x:0:\n${user.name}:x:${user.id}:\n`);
  await layMountPoints(root);
  await mkdir(join(root, ownDir, "none"), { recursive: true });
  for (const [from, to] of Object.entries(ownFiles[engine])) {
    const path = join(root, ownDir, to);
    await copyFile(join(sourceDir, from), path);
    await chmod(path, to === "entry.sh" ? 0o755 : 0o644);
  }
  await writeFile(join(root, ownDir, "engine"), `${recipe.engine}\n`);
  if (engine === "mariadb") await layMariadbData(root, signal);
}

const passwdOf = (): string =>
  ["root:x:0:0:root:/:/bin/false", `${user.name}:x:${user.id}:${user.id}:database server:/:/bin/false`, ""].join("\n");

/** The root of a container cannot be written to, so whatever is mounted has to be there; a new volume begins as its place is. */
async function layMountPoints(root: string): Promise<void> {
  for (const name of ["copy", "data", "dev", "proc", "run", "socket", "sys", "tmp"]) {
    await mkdir(join(root, name), { recursive: true });
  }
  await chmod(join(root, "tmp"), 0o1777);
  for (const name of ["copy", "data"]) {
    await chown(join(root, name), user.id, user.id);
    await chmod(join(root, name), 0o700);
  }
}

async function removeMatching(root: string, patterns: readonly RegExp[]): Promise<void> {
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (patterns.some((pattern) => pattern.test(relative(root, path))))
      await rm(path, { recursive: true, force: true });
  }
}

/** What the server reads to make its own tables, in this order. */
const systemTables = [
  "mariadb_system_tables.sql",
  "mariadb_performance_tables.sql",
  "mariadb_system_tables_data.sql",
  "maria_add_gis_sp_bootstrap.sql",
  "mariadb_sys_schema.sql",
];

/**
 * MariaDB's first data directory takes seconds to make, and nothing in it is secret or has to be different from another:
 * so it is made once. It has neither test databases nor users whom anybody could log in as.
 */
async function layMariadbData(root: string, signal: AbortSignal): Promise<void> {
  const data = join(root, ownDir, "data");
  await mkdir(data);
  await chown(data, user.id, user.id);
  const share = join(root, "usr/share/mariadb");
  const texts = await Promise.all(systemTables.map((name) => readFile(join(share, name), "utf8")));
  const sql = [
    "CREATE DATABASE mysql;",
    "USE mysql;",
    "SET @auth_root_socket=NULL;",
    ...texts,
    "USE mysql;",
    "DELETE FROM global_priv WHERE User <> 'mariadb.sys';",
    "DELETE FROM db;",
    "DELETE FROM proxies_priv;",
    "",
  ].join("\n");
  const settings = [
    ...["--no-defaults", "--bootstrap", "--log-warnings=0", "--enforce-storage-engine="],
    ...["--innodb-log-file-size=8M", "--innodb-undo-tablespaces=0", "--innodb-autoextend-increment=1"],
    ...["--loose-performance-schema=OFF", "--max-allowed-packet=8M", "--net-buffer-length=16K"],
    ...[`--datadir=/${ownDir}/data`, "--tmpdir=/tmp", "--lc-messages-dir=/usr/share/mariadb"],
  ];
  const server = argv("chroot", `--userspec=${user.id}:${user.id}`, root, "/usr/sbin/mariadbd", ...settings);
  await run(server, { input: sql, timeoutMs: bootstrapMs, signal });
  await Promise.all(systemTables.map((name) => rm(join(share, name))));
}
