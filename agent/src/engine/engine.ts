import type { Readable } from "node:stream";
import type { DatabaseEngine } from "@svc/proto";
import type { Ids } from "./context-owner.ts";
import type { EngineVersions } from "./floors.ts";
import type { OomScope } from "./oom-scope.ts";
import type { Reserved } from "./pressure.ts";

/** What this agent writes on everything it makes, and the only things it ever touches. */
export interface Owner {
  clusterId: string;
  nodeId: string;
}

export const labels = {
  cluster: "svc.cluster",
  node: "svc.node",
  /** A kind of placement that runs in a container, or "run". */
  kind: "svc.kind",
  placement: "svc.placement",
  epoch: "svc.epoch",
  specHash: "svc.spec-hash",
  ownerKind: "svc.owner-kind",
  owner: "svc.owner",
  project: "svc.project",
  channel: "svc.channel",
  /** On a database's container, and on the volumes of its data. */
  database: "svc.database",
  /** On the container of a copy's keeper, and on the copy's volume. */
  copy: "svc.copy",
  /** On the volume that is the gate of a run. */
  gate: "svc.gate",
} as const;

/** What an operator labels an image with that builds may start from as it is. */
export const localBaseLabel = { name: "svc.base-image", value: "local" } as const;

/** `other` covers what only lasts a moment or never heals by itself: paused, restarting, removing, dead. */
export type ContainerState = "created" | "running" | "exited" | "other";

/** What a container may take. 0 means no limit. */
export interface Limits {
  memoryMb: number;
  cpuMillicores: number;
  pidsLimit: number;
}

/** A container of ours, as the engine sees it now. */
export interface Container {
  id: string;
  name: string;
  labels: Readonly<Record<string, string>>;
  state: ContainerState;
  /** Meaningful once exited. */
  exitCode: number;
  oomKilled: boolean;
  /** For want of whose memory, when it was. */
  oomScope: OomScope;
  /** Why the engine could not start it; empty otherwise. */
  error: string;
  /** RFC 3339; null when it never started or never ended. */
  startedAt: string | null;
  finishedAt: string | null;
  /** Process id on the host while it runs. */
  pid: number | null;
  /** host:port it is published on; null when it publishes nothing. */
  upstream: string | null;
  limits: Limits;
  /** What is set aside for it, as far as the engine was told. */
  reserved: Reserved;
  /** Directories on this machine that hold its volumes: an image's own, each made anew with the container, and its gate. */
  volumes: readonly string[];
  /** The one that is its gate; null when it has none. */
  gate: string | null;
}

/** Which engine it is, where it keeps its data, and what it is made of. */
export type EngineDescription = EngineVersions & { id: string; rootDir: string };

/**
 * Everything a container of a tenant gets. There is no way to ask for a host namespace, a device or a capability, nor for a
 * mount, but for an empty volume that goes with the container.
 */
export type ContainerSpec = Limits & {
  name: string;
  /** See `labels`. */
  kind: string;
  image: string;
  /** Replaces the image's entrypoint and command when it is not empty. */
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  labels: Readonly<Record<string, string>>;
  network: string;
  /** What `db.svc.internal` means in it: this machine's own address in its network. Null: it is told of no database. */
  databaseAt: string | null;
  reserved: Reserved;
  /** What its own layer may hold, where the engine's storage can keep it to that; 0 or absent for no bound. */
  storageMb?: number;
  /** It gets an empty volume that this machine can look into: the gate of a run. */
  hasGate?: boolean;
  publish: { address: string; hostPort: number; containerPort: number } | null;
};

/**
 * Everything the container of a database server gets. Which volume and which directory of the machine are in it follows
 * from the database's id: there is no way to name another, and it has no network at all.
 */
export type DatabaseContainerSpec = Limits & {
  name: string;
  /** A UUID. */
  databaseId: string;
  engine: DatabaseEngine;
  image: string;
  /** Arguments of the image's entry point. */
  settings: readonly string[];
  /** Which of the database's volumes: each that a copy is restored into is another. */
  generation: number;
  /** What an empty volume is made a database with; null: there has to be one already. */
  init: { verifier: string } | null;
  /** The server is to be one that no session can write to. */
  readOnly: boolean;
  /** What copy of this node an empty volume is filled from, and until when; see `Moment`. Null: from none. */
  restore: { copyId: string; until: Moment | null; verifier: string } | null;
  labels: Readonly<Record<string, string>>;
  reserved: Reserved;
};

/** A moment by a server's clock, as image and copies write it: UTC, with six digits behind the second. */
export type Moment = string;

/**
 * Everything the container of a copy's keeper gets: the copy's volume, which is made when it is not there, and the door to the
 * server. Both follow from the copy's id.
 */
export type KeeperContainerSpec = Limits & {
  name: string;
  /** UUIDs. */
  copyId: string;
  databaseId: string;
  engine: DatabaseEngine;
  image: string;
  /** Of the server's user who keeps copies. */
  password: string;
  sizeMb: number;
  baseEverySeconds: number;
  keepSeconds: number;
  /** How often the keeper looks around; null: as often as it does by itself. */
  lookEveryMs: number | null;
  labels: Readonly<Record<string, string>>;
  reserved: Reserved;
};

/**
 * Everything the container gets that restores a copy for a look: the copy's volume, which it cannot write to, and one of its own
 * that goes with it.
 */
export type ProofContainerSpec = Limits & {
  name: string;
  /** UUIDs. */
  copyId: string;
  databaseId: string;
  image: string;
  /** Arguments of the image's entry point. */
  settings: readonly string[];
  labels: Readonly<Record<string, string>>;
  reserved: Reserved;
};

/**
 * Everything the container of a program gets that reads a database out: the directory of its server's socket, and neither its
 * data nor a network.
 */
export type DumpContainerSpec = Limits & {
  name: string;
  /** A UUID. */
  databaseId: string;
  image: string;
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  labels: Readonly<Record<string, string>>;
  reserved: Reserved;
};

/**
 * Everything the container of a browser gets that looks at one site: the directory of its way there, and neither a network nor
 * a place on the disk.
 */
export type BrowserContainerSpec = Limits & {
  name: string;
  placementId: string;
  image: string;
  /** Arguments of the image's entry point. */
  settings: readonly string[];
  labels: Readonly<Record<string, string>>;
  reserved: Reserved;
};

/** A browser that was started, which is told by its standard input and answers by its output. */
export interface TalkingProgram {
  /** What it says, until it has ended. */
  output: AsyncIterable<Buffer>;
  send(bytes: string): void;
  /** How it ended, asked for once there is no more output. */
  end(): Promise<{ oomKilled: boolean }>;
}

/** A program whose output is heard, under way. */
export interface HeardProgram {
  /** What it writes, as it comes. The program waits for whoever reads this. */
  output: AsyncIterable<Buffer>;
  /** How it ended, asked for once all of its output is read. `errors`: the last that it said of its troubles. */
  end(): Promise<{ exitCode: number; oomKilled: boolean; errors: string }>;
}

/** Where the data of a database, or a copy of it, is. It outlives every container, and goes by a word of its own only. */
export interface DatabaseVolume {
  /** Whose it is: a database's, or a copy's. */
  of: "database" | "copy";
  id: string;
  name: string;
  /** Directory on this machine. */
  path: string;
}

export interface Image {
  id: string;
  sizeBytes: number;
  /** repository@digest, for each registry it came from or went to. */
  repoDigests: readonly string[];
  /** repository:tag, likewise. */
  repoTags: readonly string[];
  os: string;
  architecture: string;
  /** Whether it can start without being told a command. */
  hasCommand: boolean;
  /** Paths that each container of it gets a volume for, which begins as a copy of what the image has there. */
  volumes: readonly string[];
  /** Whether building upon it would run instructions that it brings along. */
  hasTriggers: boolean;
  /** Of its files, unpacked, lowest first: an image that was built upon another one begins with that one's. */
  layers: readonly string[];
  /** Whether it was put there for builds to start from, by whoever runs this machine. */
  isLocalBase: boolean;
}

export interface Network {
  id: string;
  name: string;
  subnets: readonly string[];
  /** This machine's own in it. */
  addresses: readonly string[];
  labels: Readonly<Record<string, string>>;
}

/** A token that the registry takes as it is; the engine asks nobody for another one. */
export interface RegistryAuth {
  token: string;
}

export interface PullProgress {
  downloadBytes: number;
}

export interface ContainerSample {
  cpuPercent: number;
  memoryBytes: number;
  pids: number;
}

/** One move in the life of a container of ours. */
export interface EngineEvent {
  containerId: string;
  name: string;
  action: string;
}

/** What a build is told besides its context. */
export interface BuildOptions {
  tag: string;
  /** Path in the context. */
  dockerfile: string;
  buildArgs: Readonly<Record<string, string>>;
  /**
   * Names that every step finds in its hosts file, with their addresses. They are part of what a cached step is
   * recognised by, and nothing in a Dockerfile changes them.
   */
  hosts?: Readonly<Record<string, string>>;
  /** Runs every step, also one that it knows the result of. */
  noCache?: boolean;
  /** What `RUN --mount=type=secret,id=…` may read, by id. Not part of what a cached step is recognised by. */
  secrets?: ReadonlyMap<string, Buffer>;
}

/** A line of BuildKit's trace, decoded. */
export interface BuildTrace {
  vertexes: readonly BuildVertex[];
  logs: readonly { vertex: string; text: Buffer }[];
}
export interface BuildVertex {
  digest: string;
  name: string;
  cached: boolean;
  started: boolean;
  completed: boolean;
  error: string;
}

/**
 * The only door to the container engine. Every call ends: with a result, an `EngineError`, or the abort of
 * its signal. Containers that do not carry our cluster and node label do not exist here.
 */
export interface Engine {
  describe(): Promise<EngineDescription>;

  listContainers(): Promise<Container[]>;
  /** Null when absent. Throws `foreign` when the name is taken by somebody else's container. */
  findContainer(name: string): Promise<Container | null>;
  /** Creates it, or finds the one an earlier attempt created under the same name. */
  createContainer(spec: ContainerSpec): Promise<void>;
  /**
   * The same for a database's server, and for the volume that it needs. The directory of its socket has to be there
   * before it starts. Throws `not-found` when it is to be restored from a copy that is not here.
   */
  createDatabaseContainer(spec: DatabaseContainerSpec): Promise<void>;
  /** The same for the keeper of a copy. The directory of its door has to be there before it starts. */
  createKeeperContainer(spec: KeeperContainerSpec): Promise<void>;
  /** Starts a container of its own that reads a database out. Whoever asks for it removes it, whatever came of it. */
  startDump(spec: DumpContainerSpec): Promise<HeardProgram>;
  /** Likewise one that restores a copy and tells what is in it. Throws `not-found` when the copy is not here. */
  startProof(spec: ProofContainerSpec): Promise<HeardProgram>;
  /** Likewise a browser. The directory of its way has to be there. */
  startBrowser(spec: BrowserContainerSpec): Promise<TalkingProgram>;
  /** Fine when it runs already. */
  startContainer(name: string): Promise<void>;
  /**
   * Gives it other limits, also while it runs, and it goes on as it is. Fine when it is gone. Throws `failed` when the
   * kernel refuses, as it does for less memory than is in use.
   */
  limitContainer(name: string, limits: Limits, reserved: Reserved): Promise<void>;
  /** TERM, or what it was made to be stopped by, then KILL after the grace. Fine when it already stopped or is gone. */
  stopContainer(name: string, graceSeconds: number): Promise<void>;
  killContainer(name: string, signal: "SIGTERM" | "SIGKILL"): Promise<void>;
  /** Stops and removes it with its anonymous volumes. Fine when it is gone. */
  removeContainer(name: string): Promise<void>;
  /** Removes volumes of gates that no container has, but for those of runs that are needed. */
  removeStrayGates(isNeeded: (attemptId: string) => boolean): Promise<void>;
  /** Text of the last lines, each with a time stamp; empty when there is no such container. */
  readLog(name: string, lines: number): Promise<string>;
  /** Output from the first byte on, until the container ends. */
  followLog(name: string, onData: (chunk: Buffer) => void, signal: AbortSignal): Promise<void>;
  /** Null when it does not run. CPU counts from the previous sample; the first is 0. */
  sample(name: string): Promise<ContainerSample | null>;
  /** Calls back until the connection ends. `onOpen` says that nothing will be missed from now on. */
  followEvents(onEvent: (event: EngineEvent) => void, onOpen: () => void, signal: AbortSignal): Promise<void>;

  /** Data and copies of databases that this agent keeps, whether anything uses them or not. */
  listDatabaseVolumes(): Promise<DatabaseVolume[]>;
  /** Makes the volume of a copy that is brought here, or finds the one that is there. */
  provideCopyVolume(copyId: string): Promise<void>;
  /** Destroys such a volume, by its name. Nothing else does. False while a container has it; fine when it is gone. */
  removeDatabaseVolume(name: string): Promise<boolean>;

  findImage(reference: string): Promise<Image | null>;
  /** Names by digest (`repository@digest`) that begin with `prefix`. */
  listImageNames(prefix: string): Promise<string[]>;
  pullImage(
    reference: string,
    auth: RegistryAuth | null,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /** Makes an image of the files in a tar, under `name:tag`. Equal files make an image of equal layers. */
  importImage(reference: string, tar: Readable): Promise<void>;
  /** Takes one name off an image, which goes with its last. False while a container needs it; fine when it is gone. */
  removeImage(reference: string): Promise<boolean>;
  /** Pushes a local tag and returns the digest of the manifest that the registry got. */
  pushImage(
    target: { repository: string; tag: string },
    auth: RegistryAuth | null,
    signal: AbortSignal,
  ): Promise<string>;

  /** Builds a context, packed for its owner, into `tag`. Throws `failed` with the text of the failing step. */
  buildImage(
    pack: (owner: Ids) => Readable,
    options: BuildOptions,
    onTrace: (trace: BuildTrace) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /** The files under `path` of an image as a tar, without running anything of it. */
  exportFiles<T>(reference: string, path: string, use: (tar: Readable) => Promise<T>, signal: AbortSignal): Promise<T>;
  /**
   * Removes what builds left for later ones, oldest first, until at most `keepBytes` are kept. Layers of images
   * stay. Returns the bytes that became free.
   */
  pruneBuildCache(keepBytes: number): Promise<number>;

  listNetworks(): Promise<Network[]>;
  createNetwork(spec: {
    name: string;
    bridge: string;
    subnet: string;
    gateway: string;
    labels: Readonly<Record<string, string>>;
  }): Promise<void>;
  /** False when something still uses it. */
  removeNetwork(name: string): Promise<boolean>;
}
