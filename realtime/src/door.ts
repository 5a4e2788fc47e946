import type { IncomingMessage } from "node:http";
import { within } from "./deadline.ts";
import type { Hub, Outlet } from "./hub.ts";
import type { Machine } from "./machine.ts";
import type { RealtimeOptions } from "./options.ts";
import type { Subscription } from "./subscription.ts";

/** More in one request would let whoever sends it ask the application that often. */
const maxAuthorizedChannels = 100;
/** An application that does not answer would keep the place for ever. */
const authorizeTimeoutMs = 30_000;

/** Why a client does not get in. */
export interface Refusal {
  status: 400 | 403 | 503;
  text: string;
}

/** A place that is kept for a client. One of both is called, once. */
export interface Ticket {
  /** Takes the place. The answer gives it back. */
  enter(outlet: Outlet): () => void;
  /** Gives it back unused. */
  cancel(): void;
}

/** Lets clients in: as many as there are places, to the channels that they may have. */
export interface Door {
  /** A promise only where the application has to be asked. It never rejects. */
  ask(asked: Subscription, request: Request | IncomingMessage): Ticket | Refusal | Promise<Ticket | Refusal>;
}

export const isRefusal = (answer: Ticket | Refusal): answer is Refusal => "status" in answer;

const noRoom: Refusal = { status: 503, text: "Too many clients" };
const noneNamed: Refusal = { status: 400, text: "Name the channels: ?channels=" };
const tooManyNamed: Refusal = { status: 400, text: `At most ${maxAuthorizedChannels} channels` };
const forbidden: Refusal = { status: 403, text: "Forbidden" };

export function createDoor(
  hub: Hub,
  maxClients: number,
  authorize: RealtimeOptions["authorize"],
  machine: Machine,
): Door {
  /** Places of clients that the application is being asked about: counted, or all of them would get in at once. */
  let kept = 0;

  const ticketFor = (asked: Subscription): Ticket => ({
    enter(outlet) {
      kept -= 1;
      return hub.join(outlet, asked);
    },
    cancel() {
      kept -= 1;
    },
  });

  async function admitted(
    check: NonNullable<RealtimeOptions["authorize"]>,
    asked: Subscription & { channels: readonly string[] },
    request: Request | IncomingMessage,
  ): Promise<Ticket | Refusal> {
    let allowed: string[] = [];
    try {
      const answers = Promise.all(asked.channels.map(async (channel) => check(channel, request)));
      const inTime = await within(machine, authorizeTimeoutMs, answers);
      allowed = asked.channels.filter((_, at) => inTime?.[at] === true);
    } catch {
      // A check that fails lets nobody in.
    }
    if (allowed.length > 0) return ticketFor({ ...asked, channels: allowed });
    kept -= 1;
    return forbidden;
  }

  return {
    ask(asked, request) {
      const answer = ((): Ticket | Refusal | Promise<Ticket | Refusal> => {
        if (hub.size + kept >= maxClients) return noRoom;
        const { channels } = asked;
        if (authorize !== undefined && channels === null) return noneNamed;
        if (authorize !== undefined && channels !== null && channels.length > maxAuthorizedChannels)
          return tooManyNamed;
        kept += 1;
        return authorize === undefined || channels === null
          ? ticketFor(asked)
          : admitted(authorize, { ...asked, channels }, request);
      })();
      return authorize === undefined ? answer : Promise.resolve(answer);
    },
  };
}
