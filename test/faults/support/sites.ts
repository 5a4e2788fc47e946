import { nodeListReply, nodeReply } from "@svc/proto";
import { deploy } from "../../support/deploy.ts";
import { waitFor } from "../../support/wait-for.ts";
import { type Fleet, startFleet } from "./fleet.ts";
import type { Container, Node } from "./node.ts";
import { type Prober, startProber } from "./prober.ts";

/** The `ssr` example, running as several containers. */
export interface Site {
  /** Tells which container answered. */
  url: string;
  projectId: string;
  replicas: number;
}

/** Deploys the example, as a project of its own for each `slug`. */
export async function deploySite(fleet: Fleet, replicas: number, slug = "example-ssr"): Promise<Site> {
  const { url, project } = await deploy(fleet, await fleet.ssrDir({ replicas, slug }));
  return { url: `${url}/api/facts`, projectId: project.id, replicas };
}

/** Several machines that host one site, and a control that takes the loss of a node for what it is. */
export async function startSite(size: {
  machines: number;
  replicas: number;
  proxies?: boolean;
}): Promise<{ fleet: Fleet; site: Site }> {
  const fleet = await startFleet({ machines: size.machines, proxies: size.proxies ?? false });
  try {
    const site = await deploySite(fleet, size.replicas);
    await fleet.settled();
    return { fleet, site };
  } catch (error) {
    await fleet[Symbol.asyncDispose]();
    throw error;
  }
}

export interface Placed extends Container {
  node: Node;
}

/** The site's containers on every machine that answers, whatever their state. */
export async function containersOf(fleet: Fleet, site: Site): Promise<Placed[]> {
  const found = await Promise.all(
    fleet.nodes
      .filter(({ machine }) => machine.on && machine.engine?.running === true)
      .map(async (node) => (await node.containers()).map((container) => ({ ...container, node }))),
  );
  return found.flat().filter(({ project, kind }) => project === site.projectId && kind === "serve");
}

/** A container's own address, behind its node. */
export async function addressOf({ id, node }: Placed): Promise<string> {
  const { NetworkSettings } = await node.machine.docker.getContainer(id).inspect();
  const [network] = Object.values(NetworkSettings.Networks);
  return network?.IPAddress ?? "";
}

/** Where the engine of a node publishes a container, as address and port. */
export async function publishedAt({ id, node }: Placed): Promise<{ address: string; port: number }> {
  const { HostConfig } = await node.machine.docker.getContainer(id).inspect();
  const bindings: { HostIp: string; HostPort: string }[] = Object.values(
    HostConfig.PortBindings ?? {},
  ).flat() as never[];
  const [found] = bindings;
  if (found === undefined) throw new Error(`${id} is published nowhere`);
  return { address: found.HostIp, port: Number(found.HostPort) };
}

/** The nodes that run one of the site's containers, each once. */
export async function nodesOf(fleet: Fleet, site: Site): Promise<Node[]> {
  const running = (await containersOf(fleet, site)).filter(({ state }) => state === "running");
  return [...new Set(running.map(({ node }) => node))];
}

/** The first of those nodes. */
export async function nodeOf(fleet: Fleet, site: Site): Promise<Node> {
  const [node] = await nodesOf(fleet, site);
  if (node === undefined) throw new Error("the site runs nowhere");
  return node;
}

/** Resolves when there is one running container for each replica and no other of the site, of whatever state. */
export async function settled(fleet: Fleet, site: Site, timeoutMs: number): Promise<Placed[]> {
  return waitFor(`exactly ${site.replicas} containers`, timeoutMs, async () => {
    const found = await containersOf(fleet, site);
    const isSettled = found.length === site.replicas && found.every(({ state }) => state === "running");
    if (isSettled) return found;
    throw new Error(`there are: ${found.map(({ node, state, id }) => `${node.name} ${id.slice(0, 6)} ${state}`)}`);
  });
}

/** Resolves with the time since the prober was started at which `count` of these, or of all, had answered it lately. */
export async function answered(
  prober: Prober,
  what: string,
  timeoutMs: number,
  isEnough: (by: ReadonlySet<string>) => boolean,
): Promise<number> {
  const windowMs = 1_000;
  return waitFor(what, timeoutMs, () => (isEnough(prober.answering(windowMs)) ? prober.now() : null));
}

/** Resolves with the time since the prober was started at which any container had answered it after `sinceMs` of it. */
export const answeredSince = (prober: Prober, sinceMs: number, timeoutMs: number): Promise<number> =>
  waitFor("an answer", timeoutMs, () => (prober.answering(prober.now() - sinceMs).size > 0 ? prober.now() : null));

/** Starts to visit the site so many times a second; resolves once it answers. */
export async function visit(site: Site, perSecond = 10): Promise<Prober> {
  const prober = startProber(site.url, perSecond);
  await answered(prober, "the first answers", 10_000, (by) => by.size > 0);
  return prober;
}

/** What administrators see of a node now. */
export async function viewOf(fleet: Fleet, name: string) {
  const reply = await fleet.api("GET", "/admin/nodes");
  const found = nodeListReply.parse(reply.body).nodes.find((node) => node.name === name && node.status !== "removed");
  if (found === undefined) throw new Error(`there is no node ${name}`);
  return found;
}

/** Resolves with how long it took until administrators saw one of the statuses. */
export async function becomes(
  fleet: Fleet,
  { name }: Pick<Node, "name">,
  statuses: readonly string[],
  timeoutMs: number,
): Promise<number> {
  const startedAt = performance.now();
  await waitFor(`${name} to be ${statuses.join(" or ")}`, timeoutMs, async () => {
    const { status } = await viewOf(fleet, name);
    if (statuses.includes(status)) return true;
    throw new Error(`it is ${status}`);
  });
  return performance.now() - startedAt;
}

/** Does something with a node as its operator; throws what control answers when it refuses. */
export async function act(
  fleet: Fleet,
  { name }: Pick<Node, "name">,
  action: string,
  body: Record<string, unknown> = {},
) {
  const { id } = await viewOf(fleet, name);
  const reply = await fleet.api("POST", `/admin/nodes/${id}/${action}`, body);
  if (reply.body["ok"] !== true)
    throw new Error(`${action} was answered with ${reply.status} ${JSON.stringify(reply.body)}`);
  return reply.body;
}

/** The fleet's edge, as administrators name it. */
export async function edgeOf(fleet: Fleet): Promise<Pick<Node, "name">> {
  const { nodes } = nodeListReply.parse((await fleet.api("GET", "/admin/nodes")).body);
  const edge = nodes.find(({ role, status }) => role === "edge" && status !== "removed");
  if (edge === undefined) throw new Error("there is no edge");
  return { name: edge.name };
}

/** Everything that an administrator can see of a node. */
export async function detailOf(fleet: Fleet, { name }: Node) {
  const { id } = await viewOf(fleet, name);
  return nodeReply.parse((await fleet.api("GET", `/admin/nodes/${id}`)).body).node;
}

/** When each of the site's containers was started, by id: nothing was restarted while this stays the same. */
export async function startTimes(fleet: Fleet, site: Site): Promise<Record<string, string>> {
  const found = (await containersOf(fleet, site)).filter(({ state }) => state === "running");
  const times = await Promise.all(
    found.map(async ({ id, node }) => {
      const { State } = await node.machine.docker.getContainer(id).inspect();
      return [id, State.StartedAt] as const;
    }),
  );
  return Object.fromEntries(times.sort(([a], [b]) => a.localeCompare(b)));
}
