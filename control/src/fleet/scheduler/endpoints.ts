import { explainPlacementQuery, explainPlacementReply } from "@svc/proto";
import { ApiError } from "../../http/errors.ts";
import { endpoint } from "../endpoint.ts";
import { countReplaced } from "../replicas/read.ts";
import { replicaRows } from "../replicas/rows.ts";
import { replacedAt } from "../replicas/steps.ts";
import { explainPlacement, type NextTry } from "./explain-facts.ts";

const explain = endpoint({
  method: "GET",
  path: "/admin/placements/explain",
  access: "admin",
  summary: "Where a deployment's containers are, why others wait, and why each node would or would not take one more.",
  query: explainPlacementQuery,
  reply: explainPlacementReply,
  errors: ["NOT_FOUND"],
  async handle({ clock, db, fleet }, { query }) {
    const replaced = (await countReplaced(replicaRows(db), [query.deployment], () => clock.now())).get(
      query.deployment,
    );
    const nextTry: NextTry = ({ replica, served_at }, endedAt) =>
      replacedAt(replaced?.get(replica), { served: served_at !== null, at: endedAt });
    const explained = await explainPlacement({ db, fleet, nextTry }, query.deployment);
    if (explained === null) throw new ApiError("NOT_FOUND");
    return explained;
  },
});

export const placementEndpoints = [explain];
