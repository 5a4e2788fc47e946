import { rm } from "node:fs/promises";
import { join } from "node:path";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";

export type DaemonRole = "node" | "edge";

/** Who a daemon is, and the proof of it. */
export interface Identity {
  id: string;
  name: string;
  role: DaemonRole;
  clusterId: string;
  /** Raised by a force-fence or a new enrolment; control refuses any older one for ever. */
  incarnation: bigint;
  /** Leaf first. */
  certificatePem: string;
  privateKeyPem: string;
  /** Every cluster CA to trust: more than one while it is being replaced. */
  caPem: string;
  /** Of nodes: what edges know its entrances by, leaf first, for the same key; empty while control gave none. */
  entrancePem: string;
}

/** Where the identity of the daemon whose directory is `dir` is kept. */
export const identityFile = (dir: string): string => join(dir, "identity.json");

/** The identity kept in `dir`, or null when this daemon has not joined. Throws when the file is damaged. */
export async function loadIdentity(dir: string): Promise<Identity | null> {
  const path = identityFile(dir);
  const text = await readIfThere(path);
  if (text === null) return null;
  const identity = decodeIdentity(text);
  if (identity === null) throw new Error(`${path} is damaged: remove it and enrol again with a new bootstrap token`);
  return identity;
}

/** Keeps `identity` in `dir`, whole or not at all, readable by its owner only. */
export async function saveIdentity(dir: string, identity: Identity): Promise<void> {
  const text = JSON.stringify({ ...identity, incarnation: identity.incarnation.toString() }, null, 2);
  await writeDurably(identityFile(dir), `${text}\n`);
}

/** Removes the identity: what a fenced daemon does. Afterwards only a new bootstrap token lets it in. */
export async function forgetIdentity(dir: string): Promise<void> {
  await rm(identityFile(dir), { force: true });
}

/** The identity a text holds, or null when any part is missing or of the wrong type. */
export function decodeIdentity(text: string): Identity | null {
  const fields = parseObject(text);
  if (fields === null) return null;
  const { id, name, role, clusterId, incarnation, certificatePem, privateKeyPem, caPem } = fields;
  if (!isText(id) || !isText(name) || !isText(clusterId) || !isText(incarnation)) return null;
  if (!isText(certificatePem) || !isText(privateKeyPem) || !isText(caPem)) return null;
  if (role !== "node" && role !== "edge") return null;
  if (!/^[0-9]{1,20}$/.test(incarnation)) return null;
  // Absent from an earlier version.
  const entrancePem = typeof fields["entrancePem"] === "string" ? fields["entrancePem"] : "";
  const pems = { certificatePem, privateKeyPem, caPem, entrancePem };
  return { id, name, role, clusterId, incarnation: BigInt(incarnation), ...pems };
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : null;
  } catch {
    return null;
  }
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
