import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";

/** Where the files of this version are. */
export const ownMigrations = new URL("./migrations/", import.meta.url);

/** One step of the schema: a file that runs once. */
export interface Migration {
  name: string;
  sql: string;
  /** Of its text. */
  hash: string;
}

/** The steps cannot be told apart, or do not say what they are. */
export class BadMigrations extends Error {
  override readonly name = "BadMigrations";
}

/** A step that already ran has another text now. */
export class MigrationMismatch extends Error {
  override readonly name = "MigrationMismatch";
}

/** The database has steps that this version does not know. */
export class UnknownSchema extends Error {
  override readonly name = "UnknownSchema";
  constructor(steps: readonly string[]) {
    super(
      `the database has steps of the schema that this version of control does not know: ${steps.join(", ")}. ` +
        "Nothing was changed. Start the version that made them, or a newer one; to go on with this one, restore the " +
        "database from a backup of before they ran.",
    );
  }
}

const baseline = "0001-baseline.sql";
/** `expand`: versions that do not know the step go on as before. `contract`: it takes away what only older ones use. */
const laterStep = /^\d{4}-(expand|contract)(-[a-z0-9]+)+\.sql$/;

/**
 * The files of a folder in the order in which they run: numbers rise by one.
 *
 * @throws {BadMigrations} if one has a name that does not say what it does, or a number that is not the next
 */
export function inOrder(files: readonly string[]): string[] {
  const names = files.toSorted();
  for (const [at, name] of names.entries()) {
    if (name !== baseline && !laterStep.test(name))
      throw new BadMigrations(`migration ${name} is called neither NNNN-expand-….sql nor NNNN-contract-….sql`);
    const number = String(at + 1).padStart(4, "0");
    if (!name.startsWith(number)) throw new BadMigrations(`migration ${name} should have the number ${number}`);
  }
  return names;
}

/** Reads the steps of a folder, in the order in which they run. */
export async function readMigrations(dir: URL): Promise<Migration[]> {
  return Promise.all(
    inOrder(await readdir(dir)).map(async (name) => {
      const sql = await readFile(new URL(name, dir), "utf8");
      return { name, sql, hash: createHash("sha256").update(sql).digest("hex") };
    }),
  );
}

/**
 * The steps that have still to run on a database that has had `ran`.
 *
 * @throws {UnknownSchema} if it has had steps that are not `known`: what they made may not be what this version expects
 * @throws {MigrationMismatch} if one was edited since it ran
 */
export function pendingMigrations<M extends Pick<Migration, "name" | "hash">>(
  known: readonly M[],
  ran: readonly Pick<Migration, "name" | "hash">[],
): M[] {
  const unknown = ran.map(({ name }) => name).filter((name) => known.every((each) => each.name !== name));
  if (unknown.length > 0) throw new UnknownSchema(unknown);
  const hashes = new Map(ran.map(({ name, hash }) => [name, hash]));
  const edited = known.find(({ name, hash }) => (hashes.get(name) ?? hash) !== hash);
  if (edited !== undefined) throw new MigrationMismatch(`migration ${edited.name} was changed after it had run`);
  return known.filter(({ name }) => !hashes.has(name));
}
