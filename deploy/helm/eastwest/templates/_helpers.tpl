{{/* The release's name, with the chart's in it. */}}
{{- define "eastwest.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-eastwest" .Release.Name) (contains "eastwest" .Release.Name) -}}
{{- $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* What pods are chosen by; never changed, since a DaemonSet's selector can't be. */}}
{{- define "eastwest.selector" -}}
app.kubernetes.io/name: eastwest
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "eastwest.labels" -}}
{{ include "eastwest.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "eastwest.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* eastwest.yml: what the user says, and the paths, which are the pod's. */}}
{{- define "eastwest.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "paths" (dict "sysfs" "/host/sys" "state" "/var/lib/eastwest") -}}
{{- if .Values.web.secretName -}}
{{- $_ := set $config "web" (dict "config_file" "/etc/eastwest-web/web.yml") -}}
{{- end -}}
{{ toYaml $config }}
{{- end -}}

{{/*
The user's affinity, and that no label of the GPU operator says "paused". Terms are alternatives, so it is added to each;
NotIn holds for a node without the label too. The DaemonSet controller takes the pod away as soon as it no longer holds.
*/}}
{{- define "eastwest.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- if and .Values.nvidia.enabled .Values.nvidia.eviction.enabled -}}
{{- $paused := list -}}
{{- range .Values.nvidia.eviction.labels -}}
{{- $paused = append $paused (dict "key" . "operator" "NotIn" "values" $.Values.nvidia.eviction.values) -}}
{{- end -}}
{{- $key := "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- $node := get $affinity "nodeAffinity" | default dict -}}
{{- $required := get $node $key | default dict -}}
{{- $terms := list -}}
{{- range $required.nodeSelectorTerms -}}
{{- if or .matchExpressions .matchFields -}}{{/* an empty term matches no node, and must go on doing so */}}
{{- $terms = append $terms (merge (dict "matchExpressions" (concat (.matchExpressions | default list) $paused)) .) -}}
{{- end -}}
{{- end -}}
{{- if not $required.nodeSelectorTerms -}}
{{- $terms = list (dict "matchExpressions" $paused) -}}
{{- end -}}
{{- $_ := set $node $key (dict "nodeSelectorTerms" $terms) -}}
{{- $_ := set $affinity "nodeAffinity" $node -}}
{{- end -}}
{{- with $affinity }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* Combinations that would do less than they seem to. */}}
{{- define "eastwest.refuse" -}}
{{- if and .Values.networkPolicy.enabled .Values.hostNetwork -}}
{{- fail "networkPolicy.enabled: no NetworkPolicy covers pods in the host's network; set hostNetwork to false, or use web.bind, web.secretName or the node's firewall" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.from) -}}
{{- fail "networkPolicy.from: name who may ask, such as the namespace of Prometheus; an empty list would be everybody" -}}
{{- end -}}
{{- if and (eq .Values.web.scheme "https") (not .Values.web.secretName) -}}
{{- fail "web.scheme: https needs web.secretName, a secret with web.yml and its certificate" -}}
{{- end -}}
{{- if and .Values.nvidia.eviction.enabled (not .Values.nvidia.eviction.labels) -}}
{{- fail "nvidia.eviction.labels: none; set nvidia.eviction.enabled to false if that is meant" -}}
{{- end -}}
{{- end -}}
