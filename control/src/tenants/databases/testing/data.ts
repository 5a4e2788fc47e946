import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { serverDirectory, serverRights, sharedDirectory } from "../../../stores/db/testing.ts";
import { newPassword } from "../sql/password.ts";

/** Makes a server's data in `dir/data`, where nobody but the platform's user, with that password, is known. */
type MakeData = (dir: string, password: string) => Promise<unknown>;

/**
 * Lays a server's data into `dir/data`, and returns the password of the platform's user. In a test run it is made once and copied:
 * making it takes several times as long as all the rest of a server's start.
 */
export async function layData(engine: string, dir: string, make: MakeData): Promise<string> {
  const shared = sharedDirectory();
  if (shared === null) {
    const password = newPassword();
    await make(dir, password);
    return password;
  }
  const made = join(shared, `data-of-${engine}`);
  const readPassword = () => readFile(join(made, "password"), "utf8");
  const password = await readPassword().catch(async () => {
    await makeFor(made, engine, make);
    return readPassword();
  });
  const copy = ["cp", "--recursive", "--reflink=auto", join(made, "data"), join(dir, "data")];
  await run(["setpriv", ...serverRights, "--", ...copy], { cwd: dir });
  return password;
}

/** Other processes may be at it as well: whoever has all of it first has made it. */
async function makeFor(made: string, engine: string, make: MakeData): Promise<void> {
  const dir = await serverDirectory(`data-of-${engine}`);
  try {
    const password = newPassword();
    await make(dir, password);
    await writeFile(join(dir, "password"), password);
    await rename(dir, made);
  } catch (error) {
    await rm(dir, { recursive: true, force: true });
    const isThere = await readFile(join(made, "password")).catch(() => null);
    if (isThere === null) throw error;
  }
}
