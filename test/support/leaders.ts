import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Platform } from "@svc/deploy/platform";
import type { Program } from "@svc/deploy/program";
import { z } from "zod";

const askMs = 3_000;

async function etcdCall(port: number, path: string, body: object = {}): Promise<unknown> {
  const signal = AbortSignal.timeout(askMs);
  const reply = await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", body: JSON.stringify(body), signal });
  return reply.json();
}

const statusReply = z.object({ header: z.object({ member_id: z.string() }), leader: z.string() });

/** Programs by what their members say: the one that leads etcd, and the others. Throws while there is no leader. */
export async function etcdMembers({
  platform,
}: {
  platform: Platform;
}): Promise<{ leader: Program; others: Program[] }> {
  const { ports } = platform;
  const asked = await Promise.all(
    [ports.etcd, ports.etcd2, ports.etcd3].map(async (port, index) => {
      const status = statusReply.parse(await etcdCall(port, "/v3/maintenance/status"));
      return { program: platform.program(`etcd-${index + 1}`), leads: status.leader === status.header.member_id };
    }),
  );
  const leader = asked.find(({ leads }) => leads)?.program;
  if (leader === undefined) throw new Error("etcd has no leader");
  return { leader, others: asked.filter(({ leads }) => !leads).map(({ program }) => program) };
}

const base64 = (text: string) => Buffer.from(text).toString("base64");
const rangeReply = z.object({ kvs: z.array(z.object({ key: z.string(), value: z.string() })).default([]) });
const naming = z.looseObject({ serverId: z.string() });

/** Every key under `under`, as the first member of etcd knows it. */
async function etcdRange(
  { platform }: { platform: Pick<Platform, "ports"> },
  under: string,
): Promise<{ key: string; value: string }[]> {
  const last = `${under.slice(0, -1)}${String.fromCharCode(under.charCodeAt(under.length - 1) + 1)}`;
  const range = { key: base64(under), range_end: base64(last) };
  const { kvs } = rangeReply.parse(await etcdCall(platform.ports.etcd, "/v3/kv/range", range));
  const text = (encoded: string) => Buffer.from(encoded, "base64").toString("utf8");
  return kvs.map(({ key, value }) => ({ key: text(key), value: text(value) }));
}

/** Which replicas of control the values of these keys name. */
async function serverIds(cluster: { platform: Platform }, under: string, isWanted: (key: string) => boolean) {
  const entries = await etcdRange(cluster, under);
  return entries.filter(({ key }) => isWanted(key)).map(({ value }) => naming.parse(JSON.parse(value)).serverId);
}

const revisionReply = z.object({ header: z.object({ revision: z.string() }) });

/** Forgets everything of etcd but what is in force now: whoever watches from before has to begin anew. */
export async function compactEtcd({ platform }: { platform: Pick<Platform, "ports"> }): Promise<void> {
  const { header } = revisionReply.parse(
    await etcdCall(platform.ports.etcd, "/v3/kv/range", { key: base64("/svc/leader") }),
  );
  await etcdCall(platform.ports.etcd, "/v3/kv/compaction", { revision: header.revision, physical: true });
}

const placements = "/svc/placements/";

/** Every task that is on a node, and on which one. */
export async function placementsIn(cluster: {
  platform: Pick<Platform, "ports">;
}): Promise<{ node: string; task: string }[]> {
  return (await etcdRange(cluster, placements)).map(({ key }) => {
    const [node = "", task = ""] = key.slice(placements.length).split("/");
    return { node, task };
  });
}

/** Whether a task is on a node. */
export async function hasPlacement(cluster: { platform: Platform }, taskId: string): Promise<boolean> {
  return (await placementsIn(cluster)).some(({ task }) => task === taskId);
}

/** Ids of the replicas of control that etcd knows as alive; one that died is among them for some seconds. */
export const liveReplicas = (cluster: { platform: Platform }): Promise<string[]> =>
  serverIds(cluster, "/svc/servers/", () => true);

/** Ids of the replicas that hold the streams of nodes and edges, one for each daemon. */
export async function streamOwners(cluster: { platform: Platform }): Promise<string[]> {
  const isSession = (key: string) => key.endsWith("/session");
  const [nodes, edges] = await Promise.all([
    serverIds(cluster, "/svc/nodes/", isSession),
    serverIds(cluster, "/svc/edges/", isSession),
  ]);
  return [...nodes, ...edges];
}

const logLine = z.looseObject({ msg: z.string(), epoch: z.string().optional() });

/** The newest office that the replica of control that writes this log says to have taken; 0 for none. */
export async function newestEpoch(logFile: string): Promise<number> {
  const text = await readFile(logFile, "utf8").catch(() => "");
  // What comes after the last line's end is being written.
  const epochs = text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .flatMap((line) => {
      if (!line.includes('"leading"')) return [];
      const entry = logLine.safeParse(JSON.parse(line));
      return entry.success && entry.data.msg === "leading" ? [Number(entry.data.epoch)] : [];
    });
  return Math.max(0, ...epochs);
}

/** The replica of control that took office last, and the others. */
export async function controlReplicas({
  platform,
}: {
  platform: Platform;
}): Promise<{ leader: Program; others: Program[]; epoch: number }> {
  const names = ["control-1", "control-2", "control-3"];
  const asked = await Promise.all(
    names.map(async (name) => ({
      program: platform.program(name),
      epoch: await newestEpoch(join(platform.layout.logs, `${name}.log`)),
    })),
  );
  const [first, ...rest] = asked.toSorted((a, b) => b.epoch - a.epoch);
  if (first === undefined || first.epoch === 0) throw new Error("no replica has ever led");
  return { leader: first.program, others: rest.map(({ program }) => program), epoch: first.epoch };
}

/** Address of the API of a replica, by the name of its program. */
export function apiUrlOfReplica({ platform }: { platform: Platform }, name: string): string {
  const url = platform.apiUrls[Number(name.slice("control-".length)) - 1];
  if (url === undefined) throw new RangeError(`no replica ${name}`);
  return url;
}
