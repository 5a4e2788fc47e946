import { type Clock, every } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import type { Listener } from "../../stores/db/listen.ts";
import { serverTtlMs } from "./presence.ts";
import { replicaTopic } from "./topics.ts";

/** Whether etcd answers other replicas, and not this one. */
export interface CutOff extends Disposable {
  readonly isCutOff: boolean;
}

const askEveryMs = 1_000;
/** So long an answer of somebody else is believed. */
const believedMs = 5_000;

/**
 * Asks the other replicas by way of Postgres, while this one is not announced in etcd any more, whether they are. Where all
 * are cut off nobody answers, and everything stays as it is; one that alone is cut off hears nothing new, tells its daemons
 * nothing new, and has to leave them and all work to others.
 */
export function watchCutOff({
  clock,
  notify,
  listener,
  serverId,
  isAnnounced,
  log,
  lostForMs = serverTtlMs,
}: {
  clock: Clock;
  /** Tells everybody who listens to the topic. */
  notify: (topic: string, payload: string) => Promise<void>;
  listener: Pick<Listener, "on">;
  serverId: string;
  /** Whether its key in etcd is certainly there. */
  isAnnounced: () => boolean;
  log: Log;
  /** Since when it must not have been announced. By then nobody is by a lease that was renewed before etcd itself went away. */
  lostForMs?: number;
}): CutOff {
  let lostSinceMs: number | null = null;
  let heardAtMs: number | null = null;
  const hasLost = () => !isAnnounced() && lostSinceMs !== null && clock.bootMs() - lostSinceMs >= lostForMs;
  const isCutOff = () => hasLost() && heardAtMs !== null && clock.bootMs() - heardAtMs < believedMs;
  let isSaying = false;
  const say = (word: "who" | "here") => {
    if (isSaying) return;
    isSaying = true;
    // Without Postgres nobody is asked, and nothing is known.
    void notify(replicaTopic, `${word} ${serverId}`)
      .catch(() => {})
      .finally(() => {
        isSaying = false;
      });
  };
  const listening = listener.on(replicaTopic, (payload) => {
    const [word, by] = payload.split(" ");
    if (by === undefined || by === serverId) return;
    if (word === "who" && isAnnounced()) say("here");
    if (word !== "here" || !hasLost()) return;
    if (!isCutOff())
      log.warn({ other: by }, "etcd answers other replicas and not this one: its daemons are sent to them");
    heardAtMs = clock.bootMs();
  });
  const asking = every(clock, askEveryMs, () => {
    lostSinceMs = isAnnounced() ? null : (lostSinceMs ?? clock.bootMs());
    if (hasLost()) say("who");
  });
  return {
    get isCutOff() {
      return isCutOff();
    },
    [Symbol.dispose]() {
      asking[Symbol.dispose]();
      listening[Symbol.dispose]();
    },
  };
}
