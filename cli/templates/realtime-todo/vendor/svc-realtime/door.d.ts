import type { IncomingMessage } from "node:http";
import type { Hub, Outlet } from "./hub.ts";
import type { Machine } from "./machine.ts";
import type { RealtimeOptions } from "./options.ts";
import type { Subscription } from "./subscription.ts";
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
export declare const isRefusal: (answer: Ticket | Refusal) => answer is Refusal;
export declare function createDoor(hub: Hub, maxClients: number, authorize: RealtimeOptions["authorize"], machine: Machine): Door;
