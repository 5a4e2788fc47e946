// @pure
import type { Entry } from "../../stores/etcd/entry.ts";
import {
  type EdgeAppliedValue,
  type EdgeSessionValue,
  edgeAppliedValue,
  edgeSessionValue,
  keys,
  type NodeSessionValue,
  nodeSessionValue,
  prefix,
  type RoutesMetaValue,
  routesMetaValue,
} from "./keys.ts";
import type { RouteEntry } from "./route-entry.ts";

/** A value with what tells one writing of it from another. */
export interface Versioned<T> {
  value: T;
  modRevision: bigint;
  /** Guards what is written about it: a key that was deleted and written again has another one. */
  createRevision: bigint;
}

/** Which stream has a daemon's session key, as far as this replica has heard. */
export interface SessionClaim {
  modRevision: bigint;
  /** The value as written: it names one stream. */
  value: string;
}

/** A key under nodes/. `session` is null when it was written in a shape that this version of control does not know. */
export interface NodeEntry extends SessionClaim {
  session: NodeSessionValue | null;
}

/** A key under edges/: of the two what the key is for, null when it is unknown like a node's. */
export interface EdgeEntry extends SessionClaim {
  session: EdgeSessionValue | null;
  applied: EdgeAppliedValue | null;
}

/** A key under routes/. */
export type RouteKey =
  /** `json` is a protobuf Route; `entry` the same for whoever needs no protobuf, null when it is no JSON at all. */
  | { kind: "route"; host: string; json: string; entry: RouteEntry | null; modRevision: bigint }
  | { kind: "meta"; meta: RoutesMetaValue; modRevision: bigint };

/** Told of a value of which a part is left out because it does not decode. */
export type Problem = (entry: Entry, error: unknown) => void;

interface Schema<T> {
  parse(value: unknown): T;
}

export const decodeValue =
  <T>(schema: Schema<T>) =>
  (_key: string, value: string): T =>
    schema.parse(JSON.parse(value));

export const decodeVersioned =
  <T>(schema: Schema<T>) =>
  (_key: string, value: string, { modRevision, createRevision }: Entry): Versioned<T> => ({
    value: schema.parse(JSON.parse(value)),
    modRevision,
    createRevision,
  });

function orNull<T>(schema: Schema<T>, entry: Entry, problem: Problem): T | null {
  try {
    return schema.parse(JSON.parse(entry.value));
  } catch (error) {
    problem(entry, error);
    return null;
  }
}

/** The publisher alone writes routes, and whoever sends them on checks them: here they are believed. */
const anyRoute: Schema<RouteEntry | null> = { parse: (value) => value as RouteEntry | null };

/** A session that cannot be read is a claim all the same: whoever had the key before has lost it. */
export function decodeNode(entry: Entry, problem: Problem): NodeEntry {
  const { value, modRevision } = entry;
  return { value, modRevision, session: orNull(nodeSessionValue, entry, problem) };
}

/** Like `decodeNode`. */
export function decodeEdge(entry: Entry, problem: Problem): EdgeEntry {
  const { key, value, modRevision } = entry;
  return key.endsWith("/session")
    ? { value, modRevision, session: orNull(edgeSessionValue, entry, problem), applied: null }
    : { value, modRevision, session: null, applied: orNull(edgeAppliedValue, entry, problem) };
}

/**
 * A route that cannot be read is an entry all the same: without it a table would never be whole, and one host would hold
 * up all the others. @throws when the meta key cannot be read.
 */
export function decodeRoute(entry: Entry, problem: Problem): RouteKey {
  const { key, value, modRevision } = entry;
  return key === keys.routesMeta
    ? { kind: "meta", meta: routesMetaValue.parse(JSON.parse(value)), modRevision }
    : {
        ...{ kind: "route", host: key.slice(prefix.routeTable.length), json: value, modRevision },
        entry: orNull(anyRoute, entry, problem),
      };
}
