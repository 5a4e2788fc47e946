/**
 * What the hub and the client want of the machine. This package is published by itself and takes no clock from `runtime`: the
 * machine's own timers and chance are in this file and nowhere else, and tests hand over others.
 */
export interface Machine {
    /** Milliseconds that only grow. */
    steadyMs(): number;
    /** Calls `run` once after `ms`. The answer calls it off. */
    after(ms: number, run: () => void): () => void;
    /** Calls `run` every `ms` until the answer is called. Keeps no process alive. */
    every(ms: number, run: () => void): () => void;
    /** Calls `run` once what is under way in this turn of the event loop is done, and sockets have taken what they can. */
    soon(run: () => void): void;
    /** Random bytes as hex. */
    randomHex(bytes: number): string;
}
export declare const after: Machine["after"];
export declare const randomHex: Machine["randomHex"];
/** The machine of a server. */
export declare const machine: Machine;
