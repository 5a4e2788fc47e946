// @pure
import type { OwnerKind, RunKind } from "@svc/proto/kinds";
import { job } from "./job.ts";
import { release } from "./release.ts";
import type { KindOfRun } from "./run-kind.ts";

/** Every kind of run there is. */
const runKinds = { release, job } as const satisfies Record<RunKind, unknown>;

export const kindOfRun = (kind: RunKind): KindOfRun<OwnerKind> => runKinds[kind];
