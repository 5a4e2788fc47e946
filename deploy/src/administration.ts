import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";
import { z } from "zod";
import { agentTokenFile, controlCommand, type DaemonFacts, routerTokenFile } from "./daemons.ts";
import { keptSecret, randomText } from "./kept-secret.ts";
import type { Layout } from "./layout.ts";

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

const lastLine = (text: string) => text.trim().split("\n").at(-1)?.trim() ?? "";

async function bootstrapToken(facts: DaemonFacts, role: "node" | "edge"): Promise<string> {
  const { argv, env } = controlCommand(facts, ["bootstrap-token", "--role", role]);
  const token = lastLine((await run(argv, { env })).stdout);
  if (!token.startsWith("svcn1.")) throw new Error("control printed no bootstrap token");
  return token;
}

/** Whether the daemon that keeps its state in `dir` has an identity: a router has a folder of its own for it. */
const hasJoined = async (dir: string) =>
  (await readIfThere(join(dir, "identity.json"))) !== null ||
  (await readIfThere(join(dir, "identity", "identity.json"))) !== null;

/**
 * Brings the database up to date and, the first time, makes the administrator and a bootstrap token
 * for every daemon that has not joined yet. Safe to repeat after being cut short anywhere.
 * Returns the cluster's id.
 */
export async function prepareCluster(facts: DaemonFacts, adminEmail: string): Promise<string> {
  const { layout } = facts;
  const migrate = controlCommand(facts, ["migrate"]);
  await run(migrate.argv, { env: migrate.env });
  const daemons = [
    { role: "edge" as const, dir: layout.router, tokenFile: routerTokenFile(layout) },
    ...Array.from({ length: facts.agents }, (_, index) => ({
      role: "node" as const,
      dir: layout.agent(index + 1),
      tokenFile: agentTokenFile(layout, index + 1),
    })),
  ];
  let clusterId = (await readState(layout))?.clusterId ?? null;
  for (const { role, dir, tokenFile } of daemons) {
    if (clusterId !== null && (await hasJoined(dir))) continue;
    const token = await bootstrapToken(facts, role);
    await writeDurably(tokenFile, `${token}\n`);
    clusterId = token.split(".")[1] ?? null;
  }
  if (clusterId === null) throw new Error("the cluster has no id");
  const created = join(layout.dir, "administrator.json");
  if ((await readIfThere(created)) === null) {
    const admin = controlCommand(facts, [
      "create-admin",
      "--email",
      adminEmail,
      "--password-file",
      layout.secrets.adminPassword,
    ]);
    await run(admin.argv, { env: admin.env });
    await writeDurably(created, JSON.stringify({ email: adminEmail }));
  }
  await writeDurably(
    join(layout.dir, "state.json"),
    JSON.stringify({ clusterId, registryHost: facts.registry.host, ha: facts.ha === true } satisfies State),
  );
  return clusterId;
}

/** The address under which the administrator was made at the first start; null before it. */
export async function readAdminEmail(layout: Layout): Promise<string | null> {
  const text = await readIfThere(join(layout.dir, "administrator.json"));
  return text === null ? null : z.object({ email: z.string() }).parse(JSON.parse(text)).email;
}
