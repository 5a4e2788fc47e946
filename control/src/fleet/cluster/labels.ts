import type { Node } from "../../stores/db/tables.ts";

/** In which zone a machine is, by its operators or else by itself; null when nobody says. */
export const zoneOf = (node: Pick<Node, "labels" | "operator_labels">): string | null =>
  shownLabels(node)[zoneLabel] ?? null;

/** The label that says in which of several independent places a machine is. */
const zoneLabel = "zone";

/** Every label of a machine: what operators say counts for more than what it says of itself. */
export const shownLabels = ({ labels, operator_labels }: Pick<Node, "labels" | "operator_labels">) => ({
  ...labels,
  ...operator_labels,
});
