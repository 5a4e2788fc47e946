/** How far back figures of a project go: in hours up to `7d`, beyond that in days. */
export const figureSpans = ["1h", "24h", "3d", "7d", "90d", "all"] as const;
export type FigureSpan = (typeof figureSpans)[number];
export const figureSpanDefault: FigureSpan = "7d";
