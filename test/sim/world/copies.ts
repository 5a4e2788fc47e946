import type { Tx } from "@svc/control/tenants/databases/testing/memory/tables";
import { at } from "../kernel/random.ts";
import type { AgentMachine } from "../machines/agent.ts";
import { inTables } from "./changes.ts";
import type { Deed } from "./schedule.ts";
import type { World } from "./world.ts";

/** What may be done to copies of databases and to who keeps them, and how often per minute at most. */
export const copyDeeds = {
  crashKeeper: 2,
  cutLog: 0.8,
  hoursPass: 1,
  zoneNode: 3,
} as const;

type CopyDeed = keyof typeof copyDeeds;

export const isCopyDeed = (kind: string): kind is CopyDeed => kind in copyDeeds;

const hoursMs = 7 * 3_600_000;

/** Does one thing to copies, or to what they rest on. */
export function actOnCopies(world: World, kind: CopyDeed, { a, b, x }: Deed): void {
  const { nodes } = world;
  switch (kind) {
    case "crashKeeper":
      keepersMachine(world, a)?.docker.crashProgram(b, "keeper");
      return;
    case "cutLog": {
      // A keeper was away for as long as a server has room for its log.
      const volumes = nodes.flatMap(({ docker }) => [...docker.databases.volumes.values()]);
      const slots = at(
        volumes.filter((volume) => volume.slots.size > 0),
        a,
      )?.slots;
      slots?.delete(at([...slots], b) ?? "");
      return;
    }
    case "hoursPass":
      inTables(world, b, (tx) => letPass(tx, a));
      return;
    case "zoneNode":
      inTables(world, b, ({ tables }) => {
        const node = tables.nodes.get(at(nodes, a)?.nodeId ?? "");
        if (node !== undefined) node.zone = x < 0.5 ? "east" : "west";
        // Nobody tells of it: every copy is looked at every few minutes.
        for (const { id } of tables.branches.rows.values()) tables.branches.change(id, { copies_looked_at: null });
      });
      return;
  }
}

/** A machine on which somebody keeps a copy. */
const keepersMachine = ({ nodes }: World, index: number): AgentMachine | undefined =>
  at(
    nodes.filter(({ docker }) => docker.only(({ kind, state }) => kind === "keeper" && state === "running")),
    index,
  );

/** Hours in which the keeper of a copy was of no use. */
function letPass({ tables: { branches } }: Tx, index: number): void {
  const branch = at([...branches.rows.values()], index);
  if (branch?.status !== "ready") return;
  const before = (date: Date): Date => new Date(date.getTime() - hoursMs);
  branches.change(branch.id, { status_at: before(branch.status_at), copies_looked_at: null });
  for (const server of branches.serversOf(branch.id)) Object.assign(server, { createdAt: before(server.createdAt) });
  for (const copy of branches.copiesOf(branch.id)) {
    const { created_at, covered_at } = copy;
    const times = { created_at: before(created_at), covered_at: covered_at && before(covered_at) };
    branches.copies.set(copy.id, { ...copy, ...times });
  }
}
