/** Of a stream. Proxies that would gather it first are asked not to. */
export declare const streamHeaders: {
    "Content-Type": string;
    "Cache-Control": string;
    "X-Accel-Buffering": string;
};
/** Known to HTTP/1.1 alone. */
export declare const connectionHeader: {
    Connection: string;
};
/** Of a refusal. */
export declare const textHeaders: {
    "Content-Type": string;
};
