{{- define "lingua.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "lingua.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The names by which the Service is called, and those of values.yaml. */}}
{{- define "lingua.hosts" -}}
{{- $name := include "lingua.name" . -}}
{{- $in := printf "%s.%s" $name .Release.Namespace -}}
{{ $name }},{{ $in }},{{ $in }}.svc,{{ $in }}.svc.cluster.local
{{- range .Values.allowedHosts }},{{ . }}{{ end -}}
{{- end -}}

{{- define "lingua.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
