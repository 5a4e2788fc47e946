import { join } from "node:path";
import {
  builderImageOf,
  type DatabaseEngine,
  defaultBaseImage,
  defaultCaptureImage,
  defaultDatabaseImages,
} from "@svc/proto";
import { z } from "zod";
import { type PortName, type Ports, portNames, portSettings } from "./ports.ts";

const port = z.coerce.number().int().min(1).max(65_535);

const image = z.string().regex(/^[^:\s]+(:\d+\/\S+)?:[\w.-]+$/, "must be name:tag");

/** Settings of `npm start`, besides the ports. */
const shape = z.object({
  SVC_LOCAL_DIR: z.string().optional(),
  SVC_AGENTS: z.coerce.number().int().min(1).max(8).default(3),
  SVC_ADMIN_EMAIL: z.email().default("admin@svc.localhost"),
  SVC_BASE_IMAGE_NODE: image.default(defaultBaseImage),
  SVC_BUILDER_IMAGE_NODE: image.optional(),
  SVC_DB_IMAGE_POSTGRES: image.default(defaultDatabaseImages.postgres),
  SVC_DB_IMAGE_MARIADB: image.default(defaultDatabaseImages.mariadb),
  SVC_CAPTURE_IMAGE: image.or(z.literal("off")).default(defaultCaptureImage),
  SVC_BUILD_CA_FILE: z.string().optional(),
  SVC_DOCKER_SOCKET: z.string().default("/var/run/docker.sock"),
  NODE_EXTRA_CA_CERTS: z.string().optional(),
});

export interface LocalSettings {
  /** Where the platform keeps everything but images. */
  dir: string;
  agents: number;
  adminEmail: string;
  baseImage: string;
  builderImage: string;
  databaseImages: Readonly<Record<DatabaseEngine, string>>;
  /** What pictures of sites are taken in; empty: none are taken. */
  captureImage: string;
  /** PEM file that builds trust besides the public authorities; null for none. */
  buildCaFile: string | null;
  dockerSocket: string;
  ports: Ports;
}

/** A setting is wrong; the message names it. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
}

/** Reads and checks the settings of the local platform. `root` is the repository's folder. */
export function readSettings(env: Readonly<Record<string, string | undefined>>, root: string): LocalSettings {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ""));
  const result = shape.safeParse(given);
  if (!result.success) {
    const issue = result.error.issues[0];
    throw new SettingsError(`${issue?.path.join(".") ?? "settings"}: ${issue?.message ?? "invalid"}`);
  }
  const s = result.data;
  return {
    dir: s.SVC_LOCAL_DIR ?? join(root, ".svc-local"),
    agents: s.SVC_AGENTS,
    adminEmail: s.SVC_ADMIN_EMAIL,
    baseImage: s.SVC_BASE_IMAGE_NODE,
    builderImage: builderImageOf(s.SVC_BASE_IMAGE_NODE, s.SVC_BUILDER_IMAGE_NODE),
    databaseImages: { postgres: s.SVC_DB_IMAGE_POSTGRES, mariadb: s.SVC_DB_IMAGE_MARIADB },
    captureImage: s.SVC_CAPTURE_IMAGE === "off" ? "" : s.SVC_CAPTURE_IMAGE,
    // A machine whose Node needs more authorities stands behind a proxy that its builds meet, too.
    buildCaFile: s.SVC_BUILD_CA_FILE ?? s.NODE_EXTRA_CA_CERTS ?? null,
    dockerSocket: s.SVC_DOCKER_SOCKET,
    ports: readPorts(given),
  };
}

function readPorts(env: Readonly<Record<string, string | undefined>>): Ports {
  const ports: Partial<Ports> = {};
  const users = new Map<number, PortName>();
  for (const name of portNames) {
    const { setting, port: usual } = portSettings[name];
    const result = port.safeParse(env[setting] ?? usual);
    if (!result.success) throw new SettingsError(`${setting}: must be a port number`);
    const other = users.get(result.data);
    if (other !== undefined) {
      throw new SettingsError(`${setting}: port ${result.data} is already that of ${portSettings[other].setting}`);
    }
    users.set(result.data, name);
    ports[name] = result.data;
  }
  return ports as Ports;
}
