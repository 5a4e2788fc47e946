import { create } from "@bufbuild/protobuf";
import {
  type Change,
  type DesiredPlacement,
  emptyOutbox,
  type ReportedByAgent,
} from "@svc/control/fleet/sessions/outbox";
import { defaultTimings } from "@svc/control/fleet/sessions/timings";
import { type Applied, Assign_Kind, AssignSchema, Desired, type Placement, PlacementSchema } from "@svc/proto/node";
import { backOffMs } from "@svc/runtime/retry";
import { createBell, pause, type Timer, type Work, wait } from "../../kernel/kernel.ts";
import { DatabaseError } from "../../stores/postgres.ts";
import type { DesiredSource } from "./desired-source.ts";
import { imageOf } from "./images.ts";
import type { ServerStream } from "./session.ts";
import { retryBackOff } from "./session.ts";

const timings = defaultTimings;
/** So that a whole assignment comes in parts, as one with long specs does. */
const upsertsPerMessage = 4;
const desiredOf = { running: Desired.RUNNING, stopped: Desired.STOPPED, removed: Desired.REMOVED } as const;

/** Tells the agent what it is to run, one assignment after the other: mirrors `control/src/fleet/agents/assigner.ts`. */
export class Assigner {
  private readonly bell = createBell();
  private outbox = emptyOutbox;
  private silence: Timer | null = null;
  private resyncs = 0;
  private isTold = false;
  private readonly toldBell = createBell();

  private readonly stream: ServerStream;
  private readonly nodeId: string;
  private readonly source: DesiredSource;
  private readonly reported: () => ReportedByAgent;

  constructor(stream: ServerStream, nodeId: string, source: DesiredSource, reported: () => ReportedByAgent) {
    this.stream = stream;
    this.nodeId = nodeId;
    this.source = source;
    this.reported = reported;
  }

  wake(): void {
    this.bell.ring();
  }

  readonly told = (
    done: (value: undefined) => void,
    fail: (error: unknown) => void,
    scope: ServerStream["scope"],
  ): void => {
    if (this.isTold) {
      done(undefined);
      return;
    }
    this.toldBell.wait(86_400_000)(() => done(undefined), fail, scope);
  };

  private placementOf({ value }: DesiredPlacement): Placement {
    const { placementId, epoch, desired, drainSeconds, specHash, projectId, ownerId: deploymentId, channel } = value;
    return create(PlacementSchema, {
      ...{ placementId, specHash, projectId, deploymentId, channel },
      epoch: BigInt(epoch),
      desired: desiredOf[desired],
      drainSeconds,
      ownerKind: "deployment",
      ownerId: deploymentId,
      resources: { memoryMb: value.memoryMb, cpuMillicores: value.cpuMillicores, pidsLimit: 100, generation: 1n },
      spec: {
        case: "serve",
        value: {
          image: { reference: imageOf(projectId, deploymentId) },
          ...{ port: 80, stopGraceSeconds: 10, health: { path: "/", timeoutSeconds: 30 } },
        },
      },
    });
  }

  answered({ resultsIn, resync }: Applied): void {
    const before = this.outbox;
    this.outbox = this.stream.replica.world.cores.assignAnswered(before, { resultsIn, resync });
    if (this.outbox === before) return;
    this.silence?.cancel();
    this.resyncs = resync ? this.resyncs + 1 : 0;
    this.bell.ring();
  }

  private *sendNext(): Work {
    const { replica } = this.stream;
    const { cores } = replica.world;
    const { entries, revision } = this.source.current();
    const changes: Change[] = cores.pendingChanges(this.outbox, entries);
    if (this.outbox.waitsFor !== null) return;
    if (changes.length === 0 && this.outbox.position !== null) {
      this.isTold = true;
      this.toldBell.ring();
      return;
    }
    // Specs are loaded from Postgres meanwhile.
    if (changes.length > 0) yield* replica.transact(() => null);
    const included = changes.slice(0, upsertsPerMessage);
    const mass = cores.isMassStop(this.outbox, included, this.reported());
    const { outbox, head } = cores.tell(this.outbox, included, { revision, last: included.length === changes.length });
    this.outbox = outbox;
    const leaderEpoch = this.source.leaderEpoch();
    const assign = create(AssignSchema, {
      kind: head.kind === "complete" ? Assign_Kind.COMPLETE : Assign_Kind.DELTA,
      clusterEpoch: BigInt(replica.clusterEpoch),
      leaderEpoch,
      appliesTo: head.appliesTo,
      resultsIn: head.resultsIn,
      upserts: included.flatMap((change) => ("upsert" in change ? [this.placementOf(change.upsert)] : [])),
      removes: included.flatMap((change) =>
        "remove" in change ? [{ placementId: change.remove.placementId, epoch: BigInt(change.remove.epoch) }] : [],
      ),
      bulkToken: mass ? `${leaderEpoch}/${head.resultsIn}` : "",
    });
    this.silence = this.stream.scope.after(timings.applyTimeoutMs, "assignment silence", () =>
      this.stream.close({ why: "go away", reconnectAfterMs: 1_000, reason: "an assignment was not answered" }),
    );
    replica.world.checks.onAssignSent(this.nodeId, head.kind);
    this.stream.send("assign", assign);
  }

  *run(): Work {
    const { random } = this.stream.replica.process;
    let failures = 0;
    for (;;) {
      try {
        if (this.outbox.position === null && this.resyncs > 0) {
          yield* wait(pause(Math.min(timings.resyncMinMs * 2 ** (this.resyncs - 1), timings.resyncMaxMs)));
        }
        yield* this.sendNext();
        failures = 0;
        yield* wait(this.bell.wait(60_000));
      } catch (error) {
        if (!(error instanceof DatabaseError)) throw error;
        failures += 1;
        yield* wait(pause(backOffMs(failures, retryBackOff, random.next())));
      }
    }
  }
}
