import { z } from "zod";
import { databaseEngines } from "../database.ts";
import { channels } from "../lifecycle.ts";
import { databaseChange } from "./database-change.ts";
import { count, id, replyObject, success, timestamp } from "./envelope.ts";

const node = replyObject({ id, name: z.string() });

/**
 * Why a volume is there that no server has. `dropped`: its database was. `replaced`: another volume took its place, and it may have
 * what that has not. `lost`: it is its database's own, whose machine was declared lost; that may be back by now, as another.
 * `copy`: it is a copy that has ended.
 */
const databaseVolumeReasons = ["dropped", "replaced", "lost", "copy"] as const;

/**
 * A volume that a database had, or a copy of one. `projectSlug`: null once the project is deleted. `purgeAt`: when it goes; null: it
 * does not by itself, as an operator has said so (`kept`) or since it is its database's own.
 */
const databaseVolumeView = replyObject({
  name: z.string(),
  why: z.enum(databaseVolumeReasons),
  databaseId: id,
  copyId: z.string().nullable(),
  projectId: z.string().nullable(),
  projectSlug: z.string().nullable(),
  channel: z.enum(channels).nullable(),
  engine: z.enum(databaseEngines).nullable(),
  generation: count,
  node: node.nullable(),
  nodeLost: z.boolean(),
  sizeBytes: count.nullable(),
  kept: z.boolean(),
  purgeAt: timestamp.nullable(),
  createdAt: timestamp,
});
export type DatabaseVolumeView = z.output<typeof databaseVolumeView>;

/** A database that was dropped, as long as anything of it is known. */
const droppedDatabase = replyObject({
  id,
  projectId: id,
  projectSlug: z.string().nullable(),
  channel: z.enum(channels),
  engine: z.enum(databaseEngines),
  droppedAt: timestamp,
});

/** `unknown`: what machines have and nobody knows. `dropped`: the newest first. */
export const databaseVolumesReply = success({
  volumes: z.array(databaseVolumeView),
  unknown: z.array(replyObject({ name: z.string(), node, since: timestamp })),
  dropped: z.array(droppedDatabase),
});
export type DatabaseVolumesReply = z.output<typeof databaseVolumesReply>;

/** The volume's name, as the list has it. */
export const databaseVolumeParams = z.strictObject({ volume: z.string().min(1).max(64) });
export const keepDatabaseVolumeReply = success({ name: z.string(), kept: z.literal(true) });
export const deleteDatabaseVolumeInput = z.strictObject({ confirm: z.boolean().exactOptional() });
export const deleteDatabaseVolumeReply = success({ name: z.string(), deleted: z.literal(true) });

/**
 * `change`: what brings it out of a copy; null: it comes from its volume, and is as it was. `coveredAt`: nothing that was
 * acknowledged before then is lost; null: nothing is at all.
 */
export const undropDatabaseReply = success({
  databaseId: id,
  channel: z.enum(channels),
  engine: z.enum(databaseEngines),
  from: z.enum(["volume", "copy"]),
  change: databaseChange.nullable(),
  coveredAt: timestamp.nullable(),
});
