import type { IncomingMessage, ServerResponse } from "node:http";
import { type Door } from "../door.ts";
/** Serves streams by Node's `http`, and `http2` by its compatible interface. */
export declare const serveNode: (door: Door) => (request: IncomingMessage, response: ServerResponse) => void;
