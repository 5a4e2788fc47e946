import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";
import { z } from "zod";
import { agentTokenFile, controlCommand, type DaemonFacts, routerTokenFile } from "./daemons.ts";
import { keptSecret, randomText } from "./kept-secret.ts";
import type { Layout } from "./layout.ts";
import { settleAll } from "./settle-all.ts";

const state = z.object({
  clusterId: z.string(),
  registryHost: z.string().optional(),
  /** Which of both it was begun as: etcd's data is another one's for each. */
  ha: z.boolean().default(false),
});
export type State = z.infer<typeof state>;

/** What must be known about the cluster before it runs; null before its first start. */
export async function readState(layout: Layout): Promise<State | null> {
  const text = await readIfThere(join(layout.dir, "state.json"));
  return text === null ? null : state.parse(JSON.parse(text));
}

/** Makes the secrets that are not there yet; returns the administrator's password. */
export async function ensureSecrets(layout: Layout): Promise<{ adminPassword: string }> {
  await keptSecret(layout.secrets.masterKey, () => randomBytes(32).toString("base64"));
  await keptSecret(layout.secrets.authSecret, () => randomText(32));
  return { adminPassword: await keptSecret(layout.secrets.adminPassword, () => randomBytes(12).toString("base64url")) };
}

/** As many new tokens, each good for one daemon. */
async function bootstrapTokens(facts: DaemonFacts, role: "node" | "edge", count: number): Promise<string[]> {
  const { argv, env } = controlCommand(facts, ["bootstrap-token", "--role", role, "--count", String(count)]);
  const lines = (await run(argv, { env })).stdout.split("\n").map((line) => line.trim());
  const tokens = lines.filter((line) => line.startsWith("svcn1."));
  if (tokens.length !== count) throw new Error(`control printed ${tokens.length} bootstrap tokens of ${count}`);
  return tokens;
}

/** Whether the daemon that keeps its state in `dir` has an identity: a router has a folder of its own for it. */
const hasJoined = async (dir: string) =>
  (await readIfThere(join(dir, "identity.json"))) !== null ||
  (await readIfThere(join(dir, "identity", "identity.json"))) !== null;

/** Gives a token to every daemon that has not joined yet; returns the cluster's id when there were any. */
async function admitDaemons(facts: DaemonFacts, clusterId: string | null): Promise<string | null> {
  const { layout } = facts;
  const kinds = [
    { role: "edge", daemons: [{ dir: layout.router, tokenFile: routerTokenFile(layout) }] },
    {
      role: "node",
      daemons: Array.from({ length: facts.agents }, (_, index) => ({
        dir: layout.agent(index + 1),
        tokenFile: agentTokenFile(layout, index + 1),
      })),
    },
  ] as const;
  const ids = await settleAll(
    kinds.map(async ({ role, daemons }) => {
      const joined = await Promise.all(daemons.map(({ dir }) => clusterId !== null && hasJoined(dir)));
      const strangers = daemons.filter((_, index) => !joined[index]);
      if (strangers.length === 0) return null;
      const tokens = await bootstrapTokens(facts, role, strangers.length);
      for (const [index, { tokenFile }] of strangers.entries()) await writeDurably(tokenFile, `${tokens[index]}\n`);
      return tokens[0]?.split(".")[1] ?? null;
    }),
  );
  return ids.find((id) => id !== null) ?? null;
}

async function ensureAdministrator(facts: DaemonFacts, email: string): Promise<void> {
  const created = join(facts.layout.dir, "administrator.json");
  if ((await readIfThere(created)) !== null) return;
  const passwordFile = facts.layout.secrets.adminPassword;
  const { argv, env } = controlCommand(facts, ["create-admin", "--email", email, "--password-file", passwordFile]);
  await run(argv, { env });
  await writeDurably(created, JSON.stringify({ email }));
}

/**
 * Makes, the first time, the administrator and a bootstrap token for every daemon that has not joined yet. What runs for that
 * brings the database up to date before, as control itself does: whichever comes first. Safe to repeat after being cut short
 * anywhere. Returns the cluster's id.
 */
export async function prepareCluster(facts: DaemonFacts, adminEmail: string): Promise<string> {
  const known = (await readState(facts.layout))?.clusterId ?? null;
  const [admitted] = await settleAll([admitDaemons(facts, known), ensureAdministrator(facts, adminEmail)]);
  const clusterId = admitted ?? known;
  if (clusterId === null) throw new Error("the cluster has no id");
  await writeDurably(
    join(facts.layout.dir, "state.json"),
    JSON.stringify({ clusterId, registryHost: facts.registry.host, ha: facts.ha === true } satisfies State),
  );
  return clusterId;
}

/** The address under which the administrator was made at the first start; null before it. */
export async function readAdminEmail(layout: Layout): Promise<string | null> {
  const text = await readIfThere(join(layout.dir, "administrator.json"));
  return text === null ? null : z.object({ email: z.string() }).parse(JSON.parse(text)).email;
}
