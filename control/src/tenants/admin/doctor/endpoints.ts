import { doctorReply } from "@svc/proto";
import { endpoint } from "../../endpoint.ts";
import { lookOnce } from "./doctor.ts";

export const doctor = endpoint({
  method: "GET",
  path: "/admin/doctor",
  access: "admin",
  summary: "Everything that an operator should know of: what is well, what is not, and what to do about it.",
  reply: doctorReply,
  handle: (context) => lookOnce(context),
});

export const doctorEndpoints = [doctor];
