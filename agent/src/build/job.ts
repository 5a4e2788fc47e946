import type { MessageInitShape } from "@bufbuild/protobuf";
import type { BuildSpec, FetchBaseImageRequestSchema, FetchBaseImageResponse, RegistryAccess } from "@svc/proto/node";
import type { Registry } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import type { Engine, Owner } from "../engine/engine.ts";
import type { Images } from "../images/images.ts";
import type { Journal } from "../journal/journal.ts";
import type { Log } from "../log.ts";
import type { LogStream } from "../logs/log-stream.ts";
import type { ClusterRegistry } from "../registry.ts";
import type { DiskGuard } from "../stats/disk.ts";
import type { BuildProgress } from "./progress.ts";
import type { StepLimiter, StepLimits } from "./step-limits.ts";

/** One build under way. */
export type Job = BuilderDeps & {
  request: BuildRequest;
  spec: BuildSpec;
  access: RegistryAccess;
  client: Registry;
  output: LogStream;
  progress: BuildProgress;
  platform: { os: string; architecture: string };
  signal: AbortSignal;
};

export interface BuildRequest {
  placementId: string;
  projectId: string;
  spec: BuildSpec;
  /** For all steps of the build together. */
  limits: StepLimits;
  /** A place was free and the work begins. */
  onStart(): void;
}

export interface BuilderDeps {
  clock: Clock;
  engine: Engine;
  journal: Journal;
  registry: ClusterRegistry;
  images: Images;
  askForBaseImage: AskForBaseImage;
  openLog(placementId: string): LogStream;
  spoolDir: string;
  /** Resolves once build steps are kept from the host's own services. */
  isolated(): Promise<void>;
  checkDisk: DiskGuard;
  limiter: StepLimiter;
  /** How often what steps wrote is looked at. */
  lookEveryMs: number;
  owner: Owner;
  log: Log;
}

/** Asks control for a copy of an image in the cluster's registry, once. */
export type AskForBaseImage = (
  request: MessageInitShape<typeof FetchBaseImageRequestSchema>,
  signal: AbortSignal,
) => Promise<FetchBaseImageResponse>;
