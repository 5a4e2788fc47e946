import { type Door } from "../door.ts";
/** Serves streams to whatever has a Fetch `Request` and wants a `Response`. */
export declare const serveFetch: (door: Door) => (request: Request) => Response | Promise<Response>;
