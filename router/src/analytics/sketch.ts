// @pure
import { addUnique, noUniques, type Uniques } from "@svc/proto/uniques";
import { addValue, type TopValues } from "./top-values.ts";

/** What is listed by how often it came. */
export const dimensions = ["paths", "referrers", "countries", "devices", "browsers", "operatingSystems"] as const;
export type Dimension = (typeof dimensions)[number];

/** What one project's channel was visited within one hour, in bounded room. */
export interface Sketch {
  /** A UUID: counts of another one are of other visits. */
  series: string;
  /** Rises whenever something is added. */
  seq: number;
  projectId: string;
  channel: string;
  /** Since 1970, UTC. */
  hour: number;
  /** Some lists are of every so many page views only, each of which counts for all of these. */
  sampled: boolean;
  /** Of all requests, by class: 2xx to 5xx. */
  statuses: [number, number, number, number];
  lists: Record<Dimension, TopValues>;
  visitors: Uniques;
}

/** What is counted of a page that somebody was shown; null where nobody knows. */
export interface PageView {
  values: Readonly<Record<Dimension, string | null>>;
  /** Null for whoever is no visitor. */
  visitor: string | null;
  /** How many it stands for. */
  weight: number;
}

/** How many values are kept of each list. */
const roomOf: Readonly<Record<Dimension, number>> = {
  paths: 200,
  referrers: 100,
  countries: 250,
  devices: 10,
  browsers: 50,
  operatingSystems: 50,
};
/** And of each when there are so many lists that not all of them may be as long. */
const scarceRoom = 10;

export function newSketch(series: string, of: Pick<Sketch, "projectId" | "channel" | "hour">): Sketch {
  const { projectId, channel, hour } = of;
  const lists = Object.fromEntries(dimensions.map((dimension) => [dimension, new Map()])) as Sketch["lists"];
  const nothing = { seq: 0, sampled: false, visitors: noUniques(), lists };
  return { series, projectId, channel, hour, statuses: [0, 0, 0, 0], ...nothing };
}

/** @param status 0 when there was no answer */
export function addStatus(sketch: Sketch, status: number): void {
  const at = Math.floor(status / 100) - 2;
  const before = sketch.statuses[at];
  if (before !== undefined) sketch.statuses[at] = before + 1;
}

/** Returns by how many values the lists grew. */
export function addPageView(sketch: Sketch, { values, visitor, weight }: PageView, isScarce: boolean): number {
  let grown = 0;
  for (const dimension of dimensions) {
    const value = values[dimension];
    if (value === null) continue;
    const list = sketch.lists[dimension];
    const before = list.size;
    addValue(list, value, weight, isScarce ? Math.min(scarceRoom, roomOf[dimension]) : roomOf[dimension]);
    grown += list.size - before;
  }
  if (visitor !== null) addUnique(sketch.visitors, visitor);
  if (weight > 1) sketch.sampled = true;
  return grown;
}

export const valuesOf = ({ lists }: Sketch): number =>
  dimensions.reduce((sum, dimension) => sum + lists[dimension].size, 0);
