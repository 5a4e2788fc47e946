import { access, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { registryTokenAudience, registryTokenIssuer } from "@svc/proto/cluster-registry";
import { CommandError, run } from "@svc/runtime/command";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";
import { registryKeyCommand } from "./daemons.ts";
import { environmentOf } from "./environment.ts";
import { keptSecret, randomText } from "./kept-secret.ts";
import type { Layout } from "./layout.ts";
import type { LocalRegistry } from "./registry-address.ts";

/** The artifact registry as the operator of a platform has it. */
export interface OperatedRegistry {
  /** host:port */
  host: string;
  /** A token that reads and writes one repository, which is no project's, and has layers of `mountFrom` become its own. */
  pushToken(repository: string, mountFrom?: string): Promise<string>;
}

/** What signs its tokens. */
type TokenKeyFiles = Pick<Layout["secrets"], "registryTokenKey" | "registryTokenCertificate">;

const garbageMs = 10 * 60_000;

/**
 * An OCI registry on loopback that takes control's tokens and nothing else; its files stay below `dir`. What was deleted
 * in it takes up no space any more once this returns.
 */
export async function provideRegistry(options: {
  dir: string;
  port: number;
  secrets: TokenKeyFiles & Pick<Layout["secrets"], "registryEventsSecret">;
  /** Where control serves its API: whoever comes without a token is sent there, and finds nothing yet. */
  apiUrl: string;
  env: NodeJS.ProcessEnv;
  log: (line: string) => void;
}): Promise<LocalRegistry> {
  await ensureTokenKey(options);
  const eventsSecret = await keptSecret(options.secrets.registryEventsSecret, () => randomText(32));
  const host = `127.0.0.1:${options.port}`;
  const config = join(options.dir, "config.yml");
  await mkdir(join(options.dir, "data"), { recursive: true, mode: 0o700 });
  // JSON is YAML; nothing needs quoting by hand.
  await writeDurably(
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
      auth: {
        token: {
          realm: `${options.apiUrl}/api/v1/registry/token`,
          service: registryTokenAudience,
          issuer: registryTokenIssuer,
          rootcertbundle: options.secrets.registryTokenCertificate,
        },
      },
      // Control learns of manifests that are put by their digest here only; of blobs it need not know.
      notifications: {
        endpoints: [
          {
            name: "control",
            url: `${options.apiUrl}/api/v1/registry/events`,
            headers: { Authorization: [`Bearer ${eventsSecret}`] },
            ...{ timeout: "5s", threshold: 5, backoff: "5s" },
            ignore: { mediatypes: ["application/octet-stream"], actions: ["pull", "delete"] },
          },
        ],
      },
    }),
  );
  await collectGarbage({ ...options, config });
  return {
    host,
    url: `http://${host}`,
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

/** Makes the key whose tokens the registry takes, at the first start. */
async function ensureTokenKey({ secrets, env }: { secrets: TokenKeyFiles; env: NodeJS.ProcessEnv }): Promise<void> {
  const kept = await Promise.all([secrets.registryTokenKey, secrets.registryTokenCertificate].map(readIfThere));
  if (!kept.includes(null)) return;
  const command = registryKeyCommand(secrets, env);
  await run(command.argv, { env: command.env });
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
