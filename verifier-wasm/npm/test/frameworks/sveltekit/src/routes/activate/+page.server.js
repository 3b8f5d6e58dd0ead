import { isGenuine, redeem } from "../../../activation.js";

export function load({ url, setHeaders }) {
  setHeaders({ "Referrer-Policy": process.env.REFERRER_POLICY });
  const token = url.searchParams.get("token");
  return { token, genuine: isGenuine(token) };
}

export const actions = {
  async default({ request }) {
    const well = await redeem((await request.formData()).get("token"));
    return { text: well ? "Your account is active." : "Refused." };
  },
};
