import type { Route } from "@svc/proto/edge";
import type { Access, IssuedToken, TokenSigner } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { keys, placementValue, runValue } from "../cluster/keys.ts";
import { ownerOf } from "../tasks/owners/index.ts";
import { grant, grantToEdge, needsOfPlacement, needsOfRun, type TokenWish } from "./rules.ts";
import { findSpec } from "./store.ts";

/** Gives daemons tokens of the cluster's registry, for what they do now. Null: refused. */
export interface RegistryTokens {
  forNode(nodeId: string, wish: TokenWish & { workId: string }): Promise<IssuedToken | null>;
  /** `routes`: the table in force. */
  forEdge(edgeId: string, repository: string, routes: Iterable<Pick<Route, "target">>): IssuedToken | null;
}

export interface RegistryTokenDeps {
  clock: Clock;
  db: Db;
  etcd: Etcd;
  sign: TokenSigner;
  log: Log;
}

/** Of a task or of a run. */
const workIdPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Of a name that is written to the log. */
const loggedLengthMax = 255;

export function createRegistryTokens({ clock, db, etcd, sign, log }: RegistryTokenDeps): RegistryTokens {
  /** From etcd itself: a replica's view may be a moment behind what the node was told, or behind its end. */
  async function read<T>(key: string, parse: (value: unknown) => T): Promise<T | null> {
    const entry = await etcd.get(key);
    return entry === null ? null : parse(JSON.parse(entry.value));
  }

  async function needsOf(nodeId: string, workId: string) {
    if (!workIdPattern.test(workId)) return null;
    const placement = await read(keys.placement(nodeId, workId), placementValue.parse);
    if (placement !== null) return needsOfPlacement(placement, await findSpec(db, workId));
    const run = await read(keys.run(nodeId, workId), runValue.parse);
    return needsOfRun(run, run && (await ownerOf(run.ownerKind).findImageRepository(db, run.ownerId)));
  }

  function issue(subject: string, repository: string, access: Access[] | null): IssuedToken | null {
    if (access !== null) return sign(subject, access, clock.now());
    const wanted = repository.slice(0, loggedLengthMax);
    log.warn(
      { daemon: subject, repository: wanted },
      "a registry token was refused: nothing there is this daemon's work",
    );
    return null;
  }

  return {
    forNode: async (nodeId, { workId, ...wish }) =>
      issue(`node/${nodeId}`, wish.repository, grant(await needsOf(nodeId, workId), wish)),
    forEdge: (edgeId, repository, routes) => issue(`edge/${edgeId}`, repository, grantToEdge(routes, repository)),
  };
}
