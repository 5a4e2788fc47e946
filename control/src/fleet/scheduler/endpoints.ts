import { explainPlacementQuery, explainPlacementReply } from "@svc/proto";
import { ApiError } from "../../http/errors.ts";
import { endpoint } from "../endpoint.ts";
import { explainPlacement } from "./explain-facts.ts";

const explain = endpoint({
  method: "GET",
  path: "/admin/placements/explain",
  access: "admin",
  summary: "Where a deployment's containers are, why others wait, and why each node would or would not take one more.",
  query: explainPlacementQuery,
  reply: explainPlacementReply,
  errors: ["NOT_FOUND"],
  async handle({ db, fleet }, { query }) {
    const explained = await explainPlacement({ db, fleet }, query.deployment);
    if (explained === null) throw new ApiError("NOT_FOUND");
    return explained;
  },
});

export const placementEndpoints = [explain];
