import { access, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { hash } from "@node-rs/bcrypt";
import { CommandError, run } from "./command.ts";
import { environmentOf } from "./environment.ts";
import { keptSecret, randomText, writePrivate } from "./private-files.ts";
import type { ProgramSpec } from "./program.ts";

export interface LocalRegistry {
  spec: ProgramSpec;
  /** host:port, as it stands in image references. */
  host: string;
  url: string;
  username: string;
  password: string;
}

const username = "svc";
/**
 * The least that bcrypt has: the registry hashes the password again for every request, and 192 random bits need no
 * slow hash. At the usual cost of 10 each request took 70 ms longer, and a push is a dozen of them.
 */
const bcryptCost = 4;

const garbageMs = 10 * 60_000;

/**
 * An OCI registry on loopback with one user; its files stay below `dir`. What was deleted in it takes up no space
 * any more once this returns.
 */
export async function provideRegistry(options: {
  dir: string;
  port: number;
  passwordFile: string;
  env: NodeJS.ProcessEnv;
  log: (line: string) => void;
}): Promise<LocalRegistry> {
  const password = await keptSecret(options.passwordFile, () => randomText(24));
  const host = `127.0.0.1:${options.port}`;
  const users = join(options.dir, "htpasswd");
  const config = join(options.dir, "config.yml");
  await mkdir(join(options.dir, "data"), { recursive: true, mode: 0o700 });
  await writePrivate(users, `${username}:${await hash(password, bcryptCost)}\n`);
  // JSON is YAML; nothing needs quoting by hand.
  await writePrivate(
    config,
    JSON.stringify({
      version: 0.1,
      log: { level: "warn", accesslog: { disabled: true } },
      storage: {
        filesystem: { rootdirectory: join(options.dir, "data") },
        delete: { enabled: true },
        maintenance: { uploadpurging: { enabled: true, age: "24h", interval: "24h", dryrun: false } },
      },
      http: { addr: host, relativeurls: true },
      auth: { htpasswd: { realm: "svc", path: users } },
    }),
  );
  await collectGarbage({ ...options, config });
  return {
    host,
    url: `http://${host}`,
    username,
    password,
    spec: {
      name: "registry",
      argv: ["docker-registry", "serve", config],
      env: environmentOf(options.env, {}),
      ready: async (signal) => {
        const reply = await fetch(`http://${host}/v2/`, { signal });
        await reply.arrayBuffer();
        return reply.status === 401;
      },
      readyMs: 20_000,
      stopSignal: "SIGTERM",
      graceMs: 5_000,
    },
  };
}

/**
 * Frees the bytes of manifests that control deleted. The registry does that only by this command, and only while it
 * does not serve: what is pushed meanwhile would be taken for garbage. Untagged manifests stay, since they are in use
 * by their digest. Not being able to is no reason not to start.
 */
async function collectGarbage(options: {
  dir: string;
  config: string;
  env: NodeJS.ProcessEnv;
  log: (line: string) => void;
}): Promise<void> {
  const { dir, config, env, log } = options;
  const repositories = join(dir, "data", "docker", "registry", "v2", "repositories");
  const isEmpty = await access(repositories).then(
    () => false,
    () => true,
  );
  if (isEmpty) return;
  try {
    await run(["docker-registry", "garbage-collect", config], { env: environmentOf(env, {}), timeoutMs: garbageMs });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    log(`the registry's garbage was not collected: ${error.message}`);
  }
}
