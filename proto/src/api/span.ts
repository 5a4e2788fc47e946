/** How far back figures of a project go: in hours up to `7d`, beyond that in days. */
export const figureSpans = ["1h", "24h", "3d", "7d", "90d", "all"] as const;
export type FigureSpan = (typeof figureSpans)[number];
/** How long each is, in hours; null: there is no beginning. The hour or day in which a span begins belongs to it. */
export const figureSpanHours = {
  "1h": 1,
  "24h": 24,
  "3d": 72,
  "7d": 168,
  "90d": 90 * 24,
  all: null,
} as const satisfies {
  readonly [Span in FigureSpan]: number | null;
};
export const figureSpanDefault: FigureSpan = "7d";
