import "./without_finalizers.mjs";
import "./millions.mjs";
